/**
 * For the reader's test: descriptions in thirteen hands, each written after the reader and tried on it once before anything was changed. Each says what it means, parts left out and
 * negations included. What the hands in `SETS` showed to be missing was added to the reader. The last two mended nothing. First readings are in docs/world-model.md.
 */
import type { NumpyRandom } from "../../core/random-numpy.ts";
import { HORIZONTAL, type Horizontal, type Placed, VERTICAL, type Vertical } from "./reader.ts";

export type Said = { readonly text: string; readonly claims: readonly Placed[] };
type Thing = Required<Placed>;
type Hand = { readonly name: string; say(thing: Thing, random: NumpyRandom, index: number): Said };

/** A goal and up to three holes. */
export function drawThings(random: NumpyRandom): Thing[] {
  const kinds = ["goal", ...Array.from({ length: random.integers(0, 4) }, () => "hole")];
  return kinds.map((kind) => ({
    kind,
    vertical: VERTICAL[random.integers(0, 3)] as Vertical,
    horizontal: HORIZONTAL[random.integers(0, 3)] as Horizontal,
  }));
}

const picker =
  (random: NumpyRandom) =>
  <T>(choices: readonly T[]): T =>
    choices[random.integers(0, choices.length)] as T;
const OPPOSITE: Readonly<Record<string, string>> = { above: "below", below: "above", left: "right", right: "left" };
const sentence = (text: string) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;

const UP: Record<Vertical, readonly string[]> = {
  above: ["higher up than me", "somewhere over me", "up from here", "to the north of me", "above where I stand"],
  below: ["lower than me", "beneath me", "down from here", "to the south of me", "under me"],
  "same row": [
    "on the same row as me",
    "at the same height",
    "in the row I share, my row",
    "on my level",
    "in the player's row",
  ],
};
const ACROSS: Record<Horizontal, readonly string[]> = {
  left: ["over to the left", "on the left-hand side of me", "west of me", "leftwards", "on my left"],
  right: ["over to the right", "on the right-hand side of me", "east of me", "rightwards", "on my right"],
  "same column": [
    "in the same column as me",
    "vertically aligned with me",
    "on the same vertical line",
    "within my column",
  ],
};

const explorer: Hand = {
  name: "an explorer",
  say(thing, random) {
    const pick = picker(random);
    const { kind, vertical, horizontal } = thing;
    const words = kind === "goal" ? ["goal", "flag", "exit"] : ["hole", "pit"];
    const name = `${pick(kind === "goal" ? ["the", "our", "that"] : ["a", "another", "some"])} ${pick(words)}`;
    const [up, across] = [pick(UP[vertical]), pick(ACROSS[horizontal])];
    const whole = [
      `from what I can tell ${name} is ${up}, ${across}`,
      `${name} sits ${across} and ${up}`,
      `I can see ${name} ${up} and ${across}`,
      `looking around: ${name}, ${up}, ${across}`,
      `${name} - ${across} - is ${up}`,
      `the picture shows ${name}; it is ${up}. It is also ${across}`,
    ];
    if (vertical !== "same row" && horizontal !== "same column") {
      const [north, west] = [vertical === "above" ? "north" : "south", horizontal === "left" ? "west" : "east"];
      whole.push(
        `${name} is to the ${north}${west} of the player`,
        `head ${north}${west}? ${name} is ${north}-${west} of us`,
        `${name} is diagonally away: ${north} and ${west}`,
      );
    }
    if (vertical === "same row") whole.push(`${name} is neither above nor below me, and it lies ${across}`);
    else {
      whole.push(
        `${name} isn't ${OPPOSITE[vertical]} me but rather ${up}, ${across}`,
        `${name} is not level with me: it is ${up} and ${across}`,
      );
    }
    if (horizontal === "same column") whole.push(`${name} is neither left nor right of me; it is ${up}`);
    const said = whole.map((text): Said => ({ text: sentence(text), claims: [thing] }));
    return pick([
      ...said,
      { text: sentence(`${name} is ${up}`), claims: [{ kind, vertical }] },
      { text: sentence(`${name} can be found ${across}`), claims: [{ kind, horizontal }] },
      { text: sentence(`I notice ${name}`), claims: [] },
    ]);
  },
};

const reporter: Hand = {
  name: "a reporter",
  say(thing, random) {
    const pick = picker(random);
    const { kind, vertical: v, horizontal: h } = thing;
    const name = pick(kind === "goal" ? ["the goal", "the flag", "its exit"] : ["a hole", "another pit", "some hole"]);
    const steep = v === "above" ? ["above", "north of", "higher than"] : ["below", "south of", "underneath"];
    const up = v === "above" ? "up" : "down";
    const far = () => random.integers(2, 5);
    const whole: string[] = [];
    const parts: Said[] = [];
    if (v !== "same row" && h !== "same column") {
      whole.push(
        `you are ${OPPOSITE[v]} ${name} and to the ${OPPOSITE[h]} of it`,
        `${name}? It's ${v} me, on the ${h}`,
        `currently the player sees ${name} ${pick(steep)} the player and to the ${h}`,
        `my view has ${name} to the ${h} and ${up} a bit`,
        `to get there I would look ${up}; relative to me ${name} is ${v} and ${h}`,
        `${h} and ${v} of the agent there is ${name}`,
        `${name} lies ${far()} rows ${v} me and ${far()} columns to the ${h}`,
        `${name} (${v}, ${h})`,
        `${name}: ${v === "above" ? "upper" : "lower"} ${h} of me`,
      );
    } else if (h !== "same column") {
      whole.push(
        `${name} is straight to the ${h}`,
        `${name} and I share the same row; it is on the ${h}`,
        `on my ${h}, in the same row, stands ${name}`,
        `${name} is ${h} of me, neither higher nor lower`,
        `${name} is horizontally aligned with me, to the ${h}`,
      );
    } else if (v !== "same row") {
      whole.push(
        `${name} is exactly ${v} me`,
        `${v} me, in my column, ${name}`,
        `${name} shares my column and is ${v} me`,
        `${name} is ${v} me, not left and not right`,
        `directly ${pick(steep)} me I see ${name}`,
      );
    } else whole.push(`the player is standing on ${name}`, `${name} is at the same position as me`);
    if (v !== "same row")
      parts.push({ text: sentence(`all I know is that ${name} is ${v} me`), claims: [{ kind, vertical: v }] });
    if (h !== "same column") {
      parts.push({
        text: sentence(`${name} isn't on the ${OPPOSITE[h]}, it is on the ${h}`),
        claims: [{ kind, horizontal: h }],
      });
    }
    return pick([...whole.map((text): Said => ({ text: sentence(text), claims: [thing] })), ...parts]);
  },
};

const talker: Hand = {
  name: "a talker",
  say(thing, random, index) {
    const pick = picker(random);
    const { kind, vertical: v, horizontal: h } = thing;
    const holes = [index > 1 ? "another hole" : "a hole", "a dark pit", "one hole"];
    const name = pick(kind === "goal" ? ["the goal", "the yellow flag", "the exit"] : holes);
    const up = v === "above" ? "up" : "down";
    const whole: string[] = [];
    const parts: Said[] = [];
    if (v !== "same row" && h !== "same column") {
      whole.push(
        `as far as I can see, ${name} is further ${up} and more to the ${h}`,
        `${name} would be ${v} my position and to my ${h}`,
        `there is ${name} ${v} and ${h} of the red figure`,
        `in the ${v === "above" ? "upper" : "lower"} ${h} direction from me I can make out ${name}`,
        `${name} is on the ${h} and it's ${v} me too`,
        `the agent is ${OPPOSITE[v]} and ${OPPOSITE[h]} of ${name}`,
        `${name} is not on my row or column, it is ${v} me and to the ${h}`,
      );
    } else if (h !== "same column") {
      whole.push(
        `${name} is on my row, a little ${h}`,
        `${name} is beside me, directly to my ${h}`,
        `same row, ${h} side: ${name}`,
        `${name} stands neither above me nor below me but to the ${h}`,
      );
    } else if (v !== "same row") {
      whole.push(
        `${name} is on my column, ${v} me`,
        `same column, ${v}: ${name}`,
        `${name} is straight ${up} from me`,
        `${name} is immediately ${v} the player`,
      );
    } else whole.push(`I have reached ${name}, we are in the same cell`, `I am at ${name}`);
    if (v !== "same row") {
      parts.push(
        { text: sentence(`${name} is ${v} us`), claims: [{ kind, vertical: v }] },
        { text: sentence(`not ${OPPOSITE[v]} me but ${v} me is ${name}`), claims: [{ kind, vertical: v }] },
      );
    }
    if (h !== "same column") {
      parts.push(
        { text: sentence(`${name} is somewhere on the ${h}`), claims: [{ kind, horizontal: h }] },
        { text: sentence(`${name} is ${h} of the agent`), claims: [{ kind, horizontal: h }] },
      );
    }
    return pick([...whole.map((text): Said => ({ text: sentence(text), claims: [thing] })), ...parts]);
  },
};

const PLACE_UP: Record<Vertical, readonly string[]> = {
  above: ["above me", "north of my position", "up from where I am", "on a row above mine", "higher than the player"],
  below: ["below me", "south of my position", "down from where I am", "on a row below mine", "lower than the player"],
  "same row": ["in my row", "in the same row as I am", "level with me", "on the row of the player"],
};
const PLACE_ACROSS: Record<Horizontal, readonly string[]> = {
  left: ["to the left", "left of me", "on the left side", "west of my position", "in a column to my left"],
  right: ["to the right", "right of me", "on the right side", "east of my position", "in a column to my right"],
  "same column": ["in my column", "in the same column as I am", "in the column of the player"],
};

const guest: Hand = {
  name: "a guest",
  say(thing, random, index) {
    const pick = picker(random);
    const { kind, vertical: v, horizontal: h } = thing;
    const first = kind === "goal" || index === 1;
    const name = `${kind === "goal" ? "the" : first ? "a" : pick(["a second", "another", "one more"])} ${pick(kind === "goal" ? ["goal", "exit", "flag"] : ["hole", "pit"])}`;
    const [up, across] = [pick(PLACE_UP[v]), pick(PLACE_ACROSS[h])];
    const verb = pick(["is", "lies", "will be", "should be", "can be seen"]);
    const whole = [
      `${name} ${verb} ${up} and ${across}`,
      `${name} ${verb} ${across}, ${up}`,
      `relative to me, ${name} ${verb} ${up}, ${across}`,
      `${across}, ${up}, there is ${name}`,
      `I see ${name} ${across}; it is also ${up}`,
      `${name} ${verb} ${up}. It is ${across}`,
      `${up}: ${name}, and it is ${across}`,
      `at the moment ${name} ${verb} ${across} and at the same time ${up}`,
    ];
    if (v !== "same row") {
      whole.push(
        `${name} is not ${pick(PLACE_UP[OPPOSITE[v] as Vertical])} but ${up}, and it is ${across}`,
        `${name} is ${across}, and not ${OPPOSITE[v]} me, it is ${up}`,
      );
    }
    if (h !== "same column") {
      whole.push(`${name} is ${across} instead of ${pick(PLACE_ACROSS[OPPOSITE[h] as Horizontal])}, and ${up}`);
    }
    if (v !== "same row" && h !== "same column") {
      whole.push(
        `I am ${OPPOSITE[v]} ${name} and to its ${OPPOSITE[h]}`,
        `${name} is ${v === "above" ? "up" : "down"} and ${h} from here`,
      );
    }
    const said = whole.map((text): Said => ({ text: sentence(text), claims: [thing] }));
    return pick([
      ...said,
      { text: sentence(`${name} ${verb} ${up}`), claims: [{ kind, vertical: v }] },
      { text: sentence(`somewhere ${across} there is ${name}`), claims: [{ kind, horizontal: h }] },
      { text: sentence(`I see ${name}, I can't say where`), claims: [] },
    ]);
  },
};

const stranger: Hand = {
  name: "a stranger",
  say(thing, random, index) {
    const pick = picker(random);
    const { kind, vertical: v, horizontal: h } = thing;
    const goal = kind === "goal";
    const name = goal
      ? pick(["the goal", "the goal", "the flag", "the yellow exit"])
      : pick(
          index > 1 ? ["another hole", "a further pit", "a different hole"] : ["a hole", "one pit", "a dangerous hole"],
        );
    const rows: Record<Vertical, readonly string[]> = {
      above: ["above the agent", "up above", "further up", "to my north", "in an upper row"],
      below: ["below the agent", "down below", "further down", "to my south", "in a lower row"],
      "same row": ["in the same row", "on the same row as the agent", "in our row"],
    };
    const columns: Record<Horizontal, readonly string[]> = {
      left: ["to the left of the agent", "on my left-hand side", "towards the left", "to my west"],
      right: ["to the right of the agent", "on my right-hand side", "towards the right", "to my east"],
      "same column": ["in the same column", "on the same column as the agent", "in our column"],
    };
    const [up, across] = [pick(rows[v]), pick(columns[h])];
    const so = pick(["is", "appears", "is visible", "remains", "will then be", "is going to be"]);
    const whole: string[] = [
      `${name} ${so} ${up} and ${across}`,
      `${name} ${so} ${across} and ${up}`,
      `now ${name} ${so} ${up}, ${across}`,
      `we have ${name} ${across}, ${up}`,
      `${up} and ${across} we find ${name}`,
      `as for ${name}, it is ${up} and ${across}`,
      `${name} ${so} ${across}, and besides that it is ${up}`,
    ];
    if (v !== "same row") {
      whole.push(
        `${name} is definitely not ${pick(rows[OPPOSITE[v] as Vertical])}; it is ${up} and ${across}`,
        `${name} is ${up} rather than ${OPPOSITE[v]} me, and ${across}`,
      );
    }
    if (h !== "same column") {
      whole.push(`${name} isn't ${pick(columns[OPPOSITE[h] as Horizontal])} but ${across}, and it is ${up}`);
    }
    if (v !== "same row" && h !== "same column") {
      whole.push(
        `the agent is ${OPPOSITE[v]} ${name} and ${OPPOSITE[h]} of it`,
        `${name} is to the ${v === "above" ? "upper" : "lower"} ${h} of the agent`,
        `${name} is ${v === "above" ? "north" : "south"}${h === "left" ? "west" : "east"} of me`,
      );
    }
    const said = whole.map((text): Said => ({ text: sentence(text), claims: [thing] }));
    return pick([
      ...said,
      { text: sentence(`${name} ${so} ${up}`), claims: [{ kind, vertical: v }] },
      { text: sentence(`${name} ${so} ${across}`), claims: [{ kind, horizontal: h }] },
      { text: sentence(`${name} is there as well`), claims: [] },
    ]);
  },
};

const visitor: Hand = {
  name: "a visitor",
  say(thing, random, index) {
    const pick = picker(random);
    const { kind, vertical: v, horizontal: h } = thing;
    const name =
      kind === "goal"
        ? pick(["the goal", "our goal", "the exit", "the flag"])
        : pick(index > 1 ? ["another pit", "another hole", "a hole"] : ["a pit", "a hole", "the hole"]);
    const rows: Record<Vertical, readonly string[]> = {
      above: ["above my position", "north of me", "over me", "some rows above", "up there, above me"],
      below: ["below my position", "south of me", "under me", "some rows below", "down there, below me"],
      "same row": ["in the row that I am in", "in my own row", "in the same row as the player"],
    };
    const columns: Record<Horizontal, readonly string[]> = {
      left: ["left of my position", "to my left", "off to the left", "some columns to the left"],
      right: ["right of my position", "to my right", "off to the right", "some columns to the right"],
      "same column": ["in the column I am in", "in my own column", "in the same column as the player"],
    };
    const [up, across] = [pick(rows[v]), pick(columns[h])];
    const so = pick(["is", "is now", "is still", "stays", "will be", "is located"]);
    const whole: string[] = [
      `${name} ${so} ${up}, and ${across}`,
      `${name} ${so} ${across} and also ${up}`,
      `there is ${name} ${up} and ${across}`,
      `${across} is ${name}, and it is ${up}`,
      `I observe ${name}: ${up}, ${across}`,
      `looking at ${name}, it is ${across} and ${up}`,
    ];
    if (v !== "same row") whole.push(`${name} is ${up}, not ${OPPOSITE[v]} me, and it is ${across}`);
    if (h !== "same column") whole.push(`${name} is not to my ${OPPOSITE[h]}; it is ${across} and ${up}`);
    if (v === "same row" && h !== "same column") whole.push(`${name} is neither above nor below me but ${across}`);
    if (v !== "same row" && h !== "same column") {
      whole.push(
        `I am ${OPPOSITE[h]} of ${name} and ${OPPOSITE[v]} it`,
        `the player stands ${OPPOSITE[v]} and to the ${OPPOSITE[h]} of ${name}`,
      );
    }
    const said = whole.map((text): Said => ({ text: sentence(text), claims: [thing] }));
    return pick([
      ...said,
      { text: sentence(`${name} ${so} ${up}`), claims: [{ kind, vertical: v }] },
      { text: sentence(`${name} ${so} ${across}`), claims: [{ kind, horizontal: h }] },
      { text: sentence(`${name} is in the picture`), claims: [] },
    ]);
  },
};

const newcomer: Hand = {
  name: "a newcomer",
  say(thing, random, index) {
    const pick = picker(random);
    const { kind, vertical: v, horizontal: h } = thing;
    const name =
      kind === "goal"
        ? pick(["the goal", "the goal tile", "that exit", "the flag", "my goal"])
        : pick(
            index > 1 ? ["one more hole", "yet another pit", "an additional hole"] : ["a hole", "a pit", "some pit"],
          );
    const rows: Record<Vertical, readonly string[]> = {
      above: ["above my cell", "up north", "higher on the grid than I am", "upwards of me", "over my head"],
      below: ["below my cell", "down south", "lower on the grid than I am", "downwards of me", "underneath where I am"],
      "same row": [
        "on the very row I occupy",
        "at a height identical to mine",
        "in the player's own row",
        "in the row we share",
      ],
    };
    const columns: Record<Horizontal, readonly string[]> = {
      left: ["toward my left", "leftward of me", "on the west side of me", "left of where I am now"],
      right: ["toward my right", "rightward of me", "on the east side of me", "right of where I am now"],
      "same column": ["in the very column I occupy", "in the player's own column", "in the column we share"],
    };
    const [up, across] = [pick(rows[v]), pick(columns[h])];
    const so = pick(["is", "happens to be", "can currently be spotted", "ought to be", "is to be found", "shows up"]);
    const whole: string[] = [
      `${name} ${so} ${up} as well as ${across}`,
      `what I make out is ${name}, ${across} and ${up}`,
      `${across}: that is where ${name} ${so}, and ${up}`,
      `${name} ${so} ${across} while being ${up}`,
      `both ${up} and ${across} ${so} ${name}`,
      `I believe ${name} ${so} ${up}, and I also believe that it is ${across}`,
      `my reading of the frame: ${name} ${so} ${up}; moreover it is ${across}`,
    ];
    if (v === "same row") whole.push(`${name} is no higher and no lower than me, and it is ${across}`);
    else {
      whole.push(
        `${name} wouldn't be ${OPPOSITE[v]} me, it would be ${up}, and ${across}`,
        `${name} is ${across} and, as opposed to ${OPPOSITE[v]}, ${up}`,
      );
    }
    if (h === "same column") whole.push(`${name} is ${up}, without being to the left or to the right of me`);
    else
      whole.push(
        `${name} doesn't lie to the ${OPPOSITE[h]} of me; instead it lies ${across}, and ${up}`,
        `far from being on my ${OPPOSITE[h]}, ${name} is ${across} and ${up}`,
      );
    if (v !== "same row" && h !== "same column") {
      whole.push(
        `going by the picture I'm ${OPPOSITE[v]} ${name}, and to the ${OPPOSITE[h]} of it`,
        `the figure stands to the ${OPPOSITE[h]} of ${name} and also ${OPPOSITE[v]} it`,
        `${name} lies off to the ${v === "above" ? "north" : "south"}-${h === "left" ? "west" : "east"}`,
      );
    }
    const said = whole.map((text): Said => ({ text: sentence(text), claims: [thing] }));
    return pick([
      ...said,
      { text: sentence(`concerning rows, ${name} ${so} ${up}`), claims: [{ kind, vertical: v }] },
      { text: sentence(`${across} ${so} ${name}`), claims: [{ kind, horizontal: h }] },
      { text: sentence(`I am looking for ${name}`), claims: [] },
    ]);
  },
};

const latecomer: Hand = {
  name: "a latecomer",
  say(thing, random, index) {
    const pick = picker(random);
    const { kind, vertical: v, horizontal: h } = thing;
    const name =
      kind === "goal"
        ? pick(["the goal", "the target goal", "this flag", "the exit"])
        : pick(
            index > 1 ? ["a second hole", "another open pit", "another hole"] : ["a hole", "a deep pit", "one hole"],
          );
    const rows: Record<Vertical, readonly string[]> = {
      above: [
        "above the player",
        "further north than the agent",
        "up a row or two",
        "on the upper side of me",
        "higher up",
      ],
      below: [
        "below the player",
        "further south than the agent",
        "down a row or two",
        "on the lower side of me",
        "lower down",
      ],
      "same row": [
        "in line with me horizontally",
        "on the player's row",
        "along the row in which I stand",
        "at my own level",
      ],
    };
    const columns: Record<Horizontal, readonly string[]> = {
      left: ["to the agent's left", "on the left of the player", "a column or two to the left", "westwards"],
      right: ["to the agent's right", "on the right of the player", "a column or two to the right", "eastwards"],
      "same column": ["in line with me vertically", "on the player's column", "along the column in which I stand"],
    };
    const [up, across] = [pick(rows[v]), pick(columns[h])];
    const so = pick(["is", "must be", "is sitting", "has to be", "is currently", "will end up"]);
    const whole: string[] = [
      `${name} ${so} ${up} and it is ${across}`,
      `${name} ${so} ${across}, plus it is ${up}`,
      `${up}, ${across}: there ${so} ${name}`,
      `I notice that ${name} ${so} ${across}; apart from that, it ${so} ${up}`,
      `given the picture, ${name}, being ${across}, ${so} ${up}`,
      `if I am not mistaken ${name} ${so} ${up} and ${across}`,
      `${name} is what I see ${across} and ${up}`,
    ];
    if (v !== "same row") {
      whole.push(
        `${name} isn't level with me and isn't ${OPPOSITE[v]} me: it is ${up}, and ${across}`,
        `no, ${name} is not ${OPPOSITE[v]}; it is ${up} and ${across}`,
      );
    }
    if (h !== "same column") {
      whole.push(
        `it would be wrong to say that ${name} is ${across.replaceAll(h, OPPOSITE[h] as string).replace(/^west|^east/, (side) => (side === "west" ? "east" : "west"))}; no, it is on my ${h}, ${up}`,
      );
      if (v === "same row") whole.push(`${name} is just to the ${h} of me, not a row higher or lower`);
    }
    if (h === "same column" && v !== "same row") whole.push(`${name} is ${up}, with neither a left nor a right offset`);
    if (v !== "same row" && h !== "same column") {
      whole.push(
        `I find myself ${OPPOSITE[v]} and to the ${OPPOSITE[h]} of ${name}`,
        `relative to ${name} I am ${OPPOSITE[v]} and to the ${OPPOSITE[h]}`,
        `go ${v === "above" ? "up" : "down"} and ${h} from me and you get to ${name}, which is ${v} me and to the ${h}`,
      );
    }
    const said = whole.map((text): Said => ({ text: sentence(text), claims: [thing] }));
    return pick([
      ...said,
      ...said.slice(0, 4),
      { text: sentence(`${name} ${so} ${up}`), claims: [{ kind, vertical: v }] },
      { text: sentence(`${name} ${so} ${across}`), claims: [{ kind, horizontal: h }] },
      { text: sentence(`${name} exists`), claims: [] },
    ]);
  },
};

/** As larger models write. */
const clerk: Hand = {
  name: "a clerk",
  say(thing, random, index) {
    const pick = picker(random);
    const { kind, vertical: v, horizontal: h } = thing;
    const goal = kind === "goal";
    const name = goal ? pick(["goal", "goal", "flag"]) : pick(["hole", "hole", "pit"]);
    const the = `${goal ? "the" : index > 1 ? pick(["another", "a third", "an extra"]) : "a"} ${name}`;
    const [up, across] = [v === "above" ? "up" : "down", h];
    const many = () => pick(["1", "2", "3", "one", "two"]);
    const steps = () => pick(["step", "cell", "tile", "square"]);
    const rows: Record<Vertical, readonly string[]> = {
      above: ["above the player", `${many()} ${steps()} up`, "upwards", "above the player's position"],
      below: ["below the player", `${many()} ${steps()} down`, "downwards", "below the player's position"],
      "same row": ["in the same row as the player", "in the player's current row", "on the same level as the player"],
    };
    const columns: Record<Horizontal, readonly string[]> = {
      left: ["to the left of the player", `${many()} ${steps()} left`, "to the player's left"],
      right: ["to the right of the player", `${many()} ${steps()} right`, "to the player's right"],
      "same column": ["in the same column as the player", "in the player's current column"],
    };
    const [row, column] = [pick(rows[v]), pick(columns[h])];
    const whole: string[] = [
      `${the} is located ${row} and ${column}`,
      `- ${name}: ${row}, ${column}`,
      `${name} position relative to the player: ${row} and ${column}`,
      `in the image, ${the} can be seen ${column}, ${row}`,
      `the current state shows ${the} ${row} (${column})`,
      `after the action, ${the} will be ${column} and ${row}`,
      `${the} -> ${row} / ${column}`,
    ];
    if (v !== "same row" && h !== "same column") {
      whole.push(
        `the player is ${OPPOSITE[v]} ${the} and to the ${OPPOSITE[h]} of it`,
        `${the} is ${up}-${across} of the player`,
        `from the player's perspective ${the} is on the ${h}, ${v} it`,
        `${the} is to the ${v === "above" ? "upper" : "lower"}-${h} of the player, not directly ${v} it`,
      );
    } else if (h !== "same column") {
      whole.push(
        `${the} is directly to the ${h} of the player, in the same row`,
        `the player and ${the} are in the same row, with the ${name} on the ${h}`,
        `${the} is to the ${h} of the player and is neither above nor below the player`,
      );
    } else if (v !== "same row") {
      whole.push(
        `${the} is directly ${v} the player`,
        `the player and ${the} are in the same column, with the ${name} ${v} the player`,
        `${the} is ${v} the player and not to the left or right`,
      );
    } else whole.push(`the player is on ${the}`, `the player and ${the} are in the same cell`);
    const said = whole.map((text): Said => ({ text: sentence(text), claims: [thing] }));
    const parts: Said[] = [{ text: sentence(`${the} is visible`), claims: [] }];
    if (v !== "same row")
      parts.push(
        { text: sentence(`${the} is ${v} the player`), claims: [{ kind, vertical: v }] },
        { text: sentence(`${the} is not ${OPPOSITE[v]} the player; it is ${v} it`), claims: [{ kind, vertical: v }] },
      );
    if (h !== "same column")
      parts.push({
        text: sentence(`the player is to the ${OPPOSITE[h]} of ${the}`),
        claims: [{ kind, horizontal: h }],
      });
    return pick([...said, ...parts]);
  },
};

const passenger: Hand = {
  name: "a passenger",
  say(thing, random, index) {
    const pick = picker(random);
    const { kind, vertical: v, horizontal: h } = thing;
    const name =
      kind === "goal"
        ? pick(["the goal", "the shiny goal", "the exit", "the flag we want"])
        : pick(
            index > 1 ? ["a further hole", "another nasty pit", "another hole"] : ["a hole", "a nasty pit", "a pit"],
          );
    const rows: Record<Vertical, readonly string[]> = {
      above: ["above me", "up", "to the north", "in one of the rows above me", "higher than where I stand"],
      below: ["below me", "down", "to the south", "in one of the rows below me", "lower than where I stand"],
      "same row": ["in my row", "in the same row as I", "in the row where I am", "neither above nor below me"],
    };
    const columns: Record<Horizontal, readonly string[]> = {
      left: ["left of me", "to the left", "to the west", "in one of the columns to my left"],
      right: ["right of me", "to the right", "to the east", "in one of the columns to my right"],
      "same column": [
        "in my column",
        "in the same column as I",
        "in the column where I am",
        "neither left nor right of me",
      ],
    };
    const [up, across] = [pick(rows[v]), pick(columns[h])];
    const so = pick(["is", "lies", "will be", "is seen", "seems to be", "can be made out", "appears to be"]);
    const whole: string[] = [
      `${name} ${so} ${up} and ${across}`,
      `it looks like ${name} ${so} ${across}, and ${up} too`,
      `${name}: ${across}, ${up}`,
      `I think that ${name} ${so} ${up}. I also think it ${so} ${across}`,
      `as to ${name}, rows first: it ${so} ${up}. Columns next: it ${so} ${across}`,
      `${name}, as far as I know, ${so} ${across} and ${up}`,
      `in this frame ${name} ${so} ${up}; in addition it ${so} ${across}`,
    ];
    if (v !== "same row") {
      whole.push(
        `${name} ${so} ${across}. It certainly isn't ${OPPOSITE[v]} me, it is ${v} me`,
        `${name} ${so} ${across} and ${v} me, hence not ${OPPOSITE[v]} me`,
      );
    }
    if (h !== "same column") {
      whole.push(
        `not on my ${OPPOSITE[h]} but on my ${h}, ${name} ${so} ${up}`,
        `to my ${h}, and by no means to my ${OPPOSITE[h]}, ${so} ${name}; it ${so} ${up}`,
      );
    }
    if (v !== "same row" && h !== "same column") {
      whole.push(
        `${name} ${so} ${v === "above" ? "up" : "down"} ${h} from me`,
        `I stand ${OPPOSITE[v]} ${name}. I also stand ${OPPOSITE[h]} of it`,
        `seen from ${name}, I am to the ${OPPOSITE[h]} and ${OPPOSITE[v]}`,
      );
    }
    const said = whole.map((text): Said => ({ text: sentence(text), claims: [thing] }));
    return pick([
      ...said,
      { text: sentence(`${name} ${so} ${up}`), claims: [{ kind, vertical: v }] },
      { text: sentence(`${name} ${so} ${across}`), claims: [{ kind, horizontal: h }] },
      { text: sentence(`I wonder where ${name} is`), claims: [] },
    ]);
  },
};

const chronicler: Hand = {
  name: "a chronicler",
  say(thing, random, index) {
    const pick = picker(random);
    const { kind, vertical: v, horizontal: h } = thing;
    const name =
      kind === "goal"
        ? pick(["the goal", "the goal", "the golden exit", "the flag"])
        : pick(index > 1 ? ["another hole", "another round pit", "one hole"] : ["a hole", "a round pit", "one pit"]);
    const rows: Record<Vertical, readonly string[]> = {
      above: ["above me", "over to the north", "somewhere up", "in the rows above mine", "closer to the top than I am"],
      below: [
        "below me",
        "over to the south",
        "somewhere down",
        "in the rows below mine",
        "closer to the bottom than I am",
      ],
      "same row": ["in my row", "in the row that I occupy", "on one level with me", "in the same row as myself"],
    };
    const columns: Record<Horizontal, readonly string[]> = {
      left: ["to my left", "over to the west", "on the left-hand side", "in the columns left of mine"],
      right: ["to my right", "over to the east", "on the right-hand side", "in the columns right of mine"],
      "same column": ["in my column", "in the column that I occupy", "in the same column as myself"],
    };
    const [up, across] = [pick(rows[v]), pick(columns[h])];
    const so = pick(["is", "rests", "can be found", "is going to lie", "still is", "ought to lie", "must be"]);
    const whole: string[] = [
      `${name} ${so} ${across} and ${up}`,
      `${name} ${so} ${up}, ${across}`,
      `here is ${name}: ${up} and ${across}`,
      `${up}, and ${across}, ${so} ${name}`,
      `take ${name}. Vertically speaking it ${so} ${up}, and horizontally speaking it ${so} ${across}`,
      `if you ask me, ${name} ${so} ${up}, besides being ${across}`,
      `the frame has ${name} in it, ${across}, and ${up}`,
    ];
    if (v !== "same row") {
      whole.push(
        `${name} isn't in my row, nor ${OPPOSITE[v]} me; it ${so} ${v} me and ${across}`,
        `${name}, which ${so} ${across}, is ${v} me and not ${OPPOSITE[v]} me`,
      );
    }
    if (h !== "same column") {
      whole.push(
        `${name} ${so} ${up}, and it cannot be to my ${OPPOSITE[h]} since it is to my ${h}`,
        `rather than to my ${OPPOSITE[h]}, ${name} ${so} to my ${h}, ${up}`,
      );
    }
    if (v !== "same row" && h !== "same column") {
      whole.push(
        `${name} has me ${OPPOSITE[v]} it and to its ${OPPOSITE[h]}`,
        `the agent is to the ${OPPOSITE[h]} of and ${OPPOSITE[v]} ${name}`,
        `my place is ${OPPOSITE[v]} ${name}, to the ${OPPOSITE[h]} of it`,
      );
    }
    const said = whole.map((text): Said => ({ text: sentence(text), claims: [thing] }));
    return pick([
      ...said,
      { text: sentence(`${name} ${so} ${up}`), claims: [{ kind, vertical: v }] },
      { text: sentence(`${name} ${so} ${across}`), claims: [{ kind, horizontal: h }] },
      { text: sentence(`there is no telling where ${name} is`), claims: [] },
    ]);
  },
};

export const SETS: readonly Hand[] = [
  explorer,
  reporter,
  talker,
  guest,
  stranger,
  visitor,
  newcomer,
  latecomer,
  clerk,
  passenger,
  chronicler,
];

/** Never used to mend the reader. */
export const NEIGHBOUR: Hand = {
  name: "a neighbour",
  say(thing, random, index) {
    const pick = picker(random);
    const { kind, vertical: v, horizontal: h } = thing;
    const name =
      kind === "goal"
        ? pick(["the goal", "the goal cell", "the exit", "the flag"])
        : pick(
            index > 1 ? ["a different pit", "the next hole", "another hole"] : ["a hole", "the first hole", "a pit"],
          );
    const rows: Record<Vertical, readonly string[]> = {
      above: ["north of the player", "above us", "a few rows higher", "upward from my square", "on some row above"],
      below: ["south of the player", "below us", "a few rows lower", "downward from my square", "on some row below"],
      "same row": [
        "in a row with me",
        "on the same horizontal line as me",
        "level with my square",
        "in this row of mine",
      ],
    };
    const columns: Record<Horizontal, readonly string[]> = {
      left: ["west of the player", "left of us", "a few columns left", "on the left when seen from me"],
      right: ["east of the player", "right of us", "a few columns right", "on the right when seen from me"],
      "same column": ["in a column with me", "on the same vertical line as me", "in this column of mine"],
    };
    const [up, across] = [pick(rows[v]), pick(columns[h])];
    const so = pick(["is", "lies", "would be", "sits", "is placed", "should end up", "keeps being"]);
    const whole: string[] = [
      `${name} ${so} ${across}, ${up}`,
      `${up} ${so} ${name}, ${across}`,
      `at present ${name} ${so} both ${across} and ${up}`,
      `${name} ${so} ${up}, and more precisely ${across}`,
      `I can tell two things about ${name}: it is ${up}, and it is ${across}`,
      `next, ${name}. It ${so} ${across}. It also ${so} ${up}`,
      `${across} you can see ${name}, and it ${so} ${up}`,
    ];
    if (v !== "same row") {
      whole.push(
        `${name} is ${up} and ${across}, so it is not ${OPPOSITE[v]} me`,
        `${name} was never ${OPPOSITE[v]} us; it is ${up}, ${across}`,
      );
    } else if (h !== "same column") whole.push(`neither higher nor lower than me, ${name} is ${across}`);
    if (h !== "same column") {
      whole.push(
        `it isn't true that ${name} is ${OPPOSITE[h]} of me, it is ${across} and ${up}`,
        `${name} is ${across}, never ${OPPOSITE[h]} of me, and ${up}`,
      );
    } else if (v !== "same row") whole.push(`${name} is ${up} but not to the left and not to the right`);
    if (v !== "same row" && h !== "same column") {
      whole.push(
        `we are ${OPPOSITE[v]} ${name} and ${OPPOSITE[h]} of it`,
        `the player can be found to the ${OPPOSITE[h]} of ${name}, ${OPPOSITE[v]} it`,
        `${name} is in the ${v === "above" ? "north" : "south"}${h === "left" ? "west" : "east"}, as seen from me`,
      );
    }
    const said = whole.map((text): Said => ({ text: sentence(text), claims: [thing] }));
    return pick([
      ...said,
      { text: sentence(`${name} ${so} ${up}`), claims: [{ kind, vertical: v }] },
      { text: sentence(`what I can say of ${name} is that it ${so} ${across}`), claims: [{ kind, horizontal: h }] },
      { text: sentence(`${name} is somewhere on the board`), claims: [] },
    ]);
  },
};

/** Never used to mend the reader. */
export const GARDENER: Hand = {
  name: "a gardener",
  say(thing, random, index) {
    const pick = picker(random);
    const { kind, vertical: v, horizontal: h } = thing;
    const name =
      kind === "goal"
        ? pick(["the goal", "the final goal", "the exit", "the little flag"])
        : pick(index > 1 ? ["another hole", "the other pit", "one more pit"] : ["a hole", "a black hole", "a pit"]);
    const rows: Record<Vertical, readonly string[]> = {
      above: ["above", "north from here", "up from my cell", "over the agent", "higher up than I am"],
      below: ["below", "south from here", "down from my cell", "under the agent", "lower down than I am"],
      "same row": ["in the row of the agent", "in a shared row", "exactly at my height", "in the agent's row"],
    };
    const columns: Record<Horizontal, readonly string[]> = {
      left: ["left", "west from here", "on the agent's left side", "more to the left than I am"],
      right: ["right", "east from here", "on the agent's right side", "more to the right than I am"],
      "same column": ["in the column of the agent", "in a shared column", "in the agent's column"],
    };
    const [up, across] = [pick(rows[v]), pick(columns[h])];
    const so = pick(["is", "will be", "is lying", "turns out to be", "was and is", "has its place", "stays"]);
    const whole: string[] = [
      `${name} ${so} ${up} and ${across}`,
      `${name} ${so} ${across} and at once ${up}`,
      `now I see ${name}, ${up}, ${across}`,
      `${name} ${so} ${up}. Moreover, it ${so} ${across}`,
      `where is ${name}? It ${so} ${across}, and it ${so} ${up}`,
      `there is something ${up} and ${across}: ${name}`,
      `my guess for ${name} would be ${across} plus ${up}`,
    ];
    if (v !== "same row") {
      whole.push(
        `${name} ${so} ${across} and isn't ${OPPOSITE[v]} but ${v} me`,
        `contrary to before, ${name} is no longer ${OPPOSITE[v]} me; it ${so} ${up} and ${across}`,
      );
    } else if (h !== "same column") whole.push(`${name} ${so} ${across}, though neither below me nor above me`);
    if (h !== "same column") {
      whole.push(
        `${name} ${so} ${up}. You won't find it on my ${OPPOSITE[h]}, it is on my ${h}`,
        `${name} ${so} ${up}, on my ${h} and not on my ${OPPOSITE[h]}`,
      );
    }
    if (v !== "same row" && h !== "same column") {
      whole.push(
        `I am ${OPPOSITE[h]} of ${name}, and I am ${OPPOSITE[v]} it`,
        `${OPPOSITE[v]} and ${OPPOSITE[h]} of ${name}, that is where I am`,
        `${name} ${so} ${v} me on the ${h}`,
      );
    }
    const said = whole.map((text): Said => ({ text: sentence(text), claims: [thing] }));
    return pick([
      ...said,
      { text: sentence(`${name} ${so} ${up}`), claims: [{ kind, vertical: v }] },
      { text: sentence(`of ${name} I know only this: it ${so} ${across}`), claims: [{ kind, horizontal: h }] },
      { text: sentence(`${name} will matter later`), claims: [] },
    ]);
  },
};
