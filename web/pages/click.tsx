/**
 * What an action did on the frame: the pointer where it clicked, the element it hit, a line where it dragged, and in words what was typed. While an
 * episode plays, the pointer travels from the place of the turn before. Worlds without a pointer have no marks, and their frame is left as it is.
 */
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { MarkRecord } from "../../src/viewer/api.ts";
import "./click.css";

type Place = { readonly x: number; readonly y: number };

export function Pointed(props: {
  marks: readonly MarkRecord[] | undefined;
  from: readonly MarkRecord[] | undefined;
  children: ComponentChildren;
}) {
  const { marks = [], from = [], children } = props;
  const holder = useRef<HTMLDivElement>(null);
  const [size, setSize] = useState<readonly [width: number, height: number]>();
  // The frame is shown as large as it fits, so the drawing over it has to have the frame's own shape.
  useLayoutEffect(() => {
    const image = holder.current?.querySelector("img");
    if (image === null || image === undefined) return setSize(undefined);
    const measure = () => {
      const { naturalWidth: width, naturalHeight: height } = image;
      setSize((known) =>
        width === 0 ? undefined : known?.[0] === width && known[1] === height ? known : [width, height],
      );
    };
    measure();
    image.addEventListener("load", measure);
    return () => image.removeEventListener("load", measure);
  });
  if (marks.length === 0) return <>{children}</>;
  return (
    <>
      <div class="pointed" ref={holder}>
        {children}
        {size && <Drawing marks={marks} start={placeOf(from.at(-1))} size={size} />}
      </div>
      <p class="pointed-words">{marks.map(wordsOf).join(", then ")}</p>
    </>
  );
}

function Drawing(props: { marks: readonly MarkRecord[]; start: Place | undefined; size: readonly [number, number] }) {
  const { marks, start, size } = props;
  const [width, height] = size;
  const unit = Math.max(width, height) / 100;
  const at = ({ x, y }: Place): Place => ({ x: x * width, y: y * height });
  const last = placeOf(marks.at(-1)) ?? start;
  return (
    <svg class="marks" viewBox={`0 0 ${width} ${height}`} aria-hidden="true">
      {marks.map(({ action, x, y, to, box }, i) => {
        const place = x === undefined || y === undefined ? undefined : at({ x, y });
        const end = to && at({ x: to[0], y: to[1] });
        return (
          <g key={`${i} ${action} ${x} ${y}`}>
            {box && (
              <rect
                class="hit"
                x={box[0] * width}
                y={box[1] * height}
                width={box[2] * width}
                height={box[3] * height}
                stroke-width={unit * 0.6}
              />
            )}
            {place && <circle class="click" cx={place.x} cy={place.y} r={unit * 3} stroke-width={unit * 0.7} />}
            {action === "double_click" && place && (
              <circle class="click" cx={place.x} cy={place.y} r={unit * 5} stroke-width={unit * 0.5} />
            )}
            {place && end && (
              <line class="way" x1={place.x} y1={place.y} x2={end.x} y2={end.y} stroke-width={unit * 0.7} />
            )}
          </g>
        );
      })}
      {last && <Pointer to={at(last)} from={start && at(start)} unit={unit} />}
    </svg>
  );
}

/** An arrow whose tip is the place. */
function Pointer({ to, from, unit }: { to: Place; from: Place | undefined; unit: number }) {
  const arrow = useRef<SVGPathElement>(null);
  useLayoutEffect(() => {
    if (from === undefined || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    const place = ({ x, y }: Place) => `translate(${x}px, ${y}px) scale(${unit})`;
    const moving = arrow.current?.animate([{ transform: place(from) }, { transform: place(to) }], {
      duration: 280,
      easing: "ease-in-out",
    });
    return () => moving?.cancel();
  }, [to.x, to.y, from?.x, from?.y]);
  return (
    <path
      ref={arrow}
      class="pointer"
      d="M0 0V8.4L2.1 6.500 3.600 9.800 5 9.200 3.600 5.900H6.400Z"
      style={{ transform: `translate(${to.x}px, ${to.y}px) scale(${unit})` }}
    />
  );
}

/** Where the pointer was after an action. */
function placeOf(mark: MarkRecord | undefined): Place | undefined {
  if (mark?.x === undefined || mark.y === undefined) return undefined;
  return mark.to ? { x: mark.to[0], y: mark.to[1] } : { x: mark.x, y: mark.y };
}

/** `click on button "Log in"`, `type "Ada"`. */
export function wordsOf({ action, text, element }: MarkRecord): string {
  const what = action === "type" && text !== undefined ? JSON.stringify(text) : text;
  const words = [action.replaceAll("_", " "), ...(what === undefined ? [] : [what])].join(" ");
  return element === undefined ? words : `${words} on ${element}`;
}
