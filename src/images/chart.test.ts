import { expect, test } from "vitest";
import { drawChart } from "./chart.ts";

const chart = {
  title: "lakes",
  curves: [
    {
      name: "sampled",
      points: [
        [0, 0.4],
        [80, 0.7],
        [160, 0.9],
      ] as const,
    },
  ],
  levels: [{ name: "ceiling", y: 1 }],
};

const inked = (image: ReturnType<typeof drawChart>, [r, g, b]: readonly number[]) => {
  const found: [number, number][] = [];
  for (let i = 0; i < image.data.length; i += 3) {
    if (image.data[i] === r && image.data[i + 1] === g && image.data[i + 2] === b) {
      found.push([(i / 3) % image.width, Math.floor(i / 3 / image.width)]);
    }
  }
  return found;
};

test("a higher value is drawn higher, a later step further right", () => {
  const image = drawChart(chart);
  const plot = inked(image, [0, 107, 164]).filter(([, y]) => y < image.height - 70);
  const left = plot.filter(([x]) => x < 80).map(([, y]) => y);
  const right = plot.filter(([x]) => x > image.width - 40).map(([, y]) => y);
  expect(Math.min(...left)).toBeGreaterThan(Math.max(...right));
});

test("values that are not finite, one point and no point at all are drawn without complaint", () => {
  const points = [
    [0, Number.NaN],
    [1, 0.5],
  ] as const;
  for (const curves of [[{ name: "a", points }], [{ name: "a", points: [] }], []]) {
    expect(drawChart({ ...chart, curves }).width).toBe(720);
  }
});

test("long names stand below each other, short ones in two columns: no entry of the legend covers another", () => {
  const named = (name: string) => [0, 1].map((i) => ({ name: `${name} ${i}`, points: [[0, i]] as const }));
  const starts = (name: string) => {
    const image = drawChart({ title: "", curves: named(name), levels: [] });
    // The lines of the legend are the lowest ink of each colour.
    return ([0, 1] as const).map((i) => {
      const ink = inked(image, i === 0 ? [0, 107, 164] : [225, 112, 20]);
      const low = Math.max(...ink.map(([, y]) => y));
      return { x: Math.min(...ink.filter(([, y]) => y === low).map(([x]) => x)), y: low };
    });
  };
  const [a, b] = starts("short");
  expect(a?.y).toBe(b?.y);
  expect(a?.x).toBeLessThan(b?.x as number);
  const [c, d] = starts("a run whose name says all that was changed in it eval/success_greedy");
  expect(c?.x).toBe(d?.x);
  expect(d?.y).toBe((c?.y as number) + 20);
});

test("words of levels that lie on top of each other stand side by side", () => {
  const both = drawChart({
    ...chart,
    levels: [
      { name: "floor", y: 0 },
      { name: "random", y: 0 },
    ],
  });
  const joined = drawChart({ ...chart, levels: [{ name: "random 0, floor", y: 0 }] });
  expect(Buffer.compare(joined.data, both.data)).toBe(0);
});
