/**
 * Where `src/model/merges.ts` came from: what worlds and protocols say, and sentences of our own for words that later worlds
 * will need, learned as byte pairs. The presets' vocabulary is frozen, so this is run for a new generation of presets only:
 *
 *   npx jiti bench/learn-merges.ts > src/model/merges.ts
 */

import { mixSeed } from "../src/core/seed.ts";
import { listEnvs, makeWorldEnv, protocolNames, type WorldEnv } from "../src/envs/index.ts";
import { MIN_VOCAB, trainTokenizer } from "../src/model/train-tokenizer.ts";
import { assistant, type Message, NumpyRandom, textOf } from "./saccade.ts";

const VOCAB = 2048;
/** Letters of a line of merges in the file. */
const LINE = 108;

const directions = ["left", "right", "up", "down"];
const numbers = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
const colors = [
  "red",
  "green",
  "blue",
  "yellow",
  "purple",
  "orange",
  "cyan",
  "white",
  "black",
  "gray",
  "grey",
  "pink",
  "brown",
];
const relations = [
  "above",
  "below",
  "left of",
  "right of",
  "next to",
  "on",
  "in front of",
  "behind",
  "between",
  "inside",
  "near",
];
const things = [
  "player",
  "agent",
  "goal",
  "target",
  "box",
  "hole",
  "wall",
  "block",
  "patch",
  "piece",
  "stick",
  "match",
  "cube",
  "arm",
  "dot",
  "door",
  "key",
  "tile",
  "cell",
  "picture",
  "object",
];

/** What is said once in every world: it is heard often, so that it becomes few tokens even in the smallest vocabulary. */
const common = [
  ...directions.flatMap((word) => [
    `<action>${word}</action>`,
    `<answer>${word}, ${word}</answer>`,
    `<observation>The goal is ${word}.</observation><think>I move ${word}.</think><answer>${word}</answer><prediction>I am ${word} of the wall.</prediction>`,
    `<observation>${word}</observation><justification>The way ${word} is open.</justification><action>${word}</action>`,
    `<tool_call>{"name": "move", "arguments": {"direction": "${word}"}}</tool_call>`,
    `The goal is two rows ${word} and three columns ${word}; open ways: ${word}, up; route: ${word}, ${word}, stop.`,
  ]),
  ...[...directions, "stop"].flatMap((word) => Array.from({ length: 6 }, () => `<action>${word}</action>`)),
  ...Array.from({ length: 3 }, () => "<answer>stop</answer> ('stop', 'stop')"),
  "('move', 0)",
  "('move', 1)\n('move', 2)\n('move', 3)",
  "('move', (7, 1))",
  "<action>('move', 0)</action>",
];

/** Heard a few times each: whole words in the larger vocabularies. */
function sentences(): string[] {
  const said: string[] = [];
  for (const [i, a] of things.entries()) {
    const [b, r, s] = [
      things[(i * 5 + 3) % things.length],
      relations[i % relations.length],
      relations[(i + 4) % relations.length],
    ];
    said.push(
      `The ${a} is ${r} the ${b} and ${s} it.`,
      `I see the ${a} ${r} the ${b}.`,
      `Where is the ${a}? It is ${r} the ${b}.`,
    );
    said.push(`{"subject": "${a}", "relations": ["above", "left"], "object": "${b}"}`);
    said.push(
      `After this the ${a} will be below and right of the ${b}.`,
      `There is a ${colors[i % colors.length]} ${a} here.`,
    );
  }
  for (const [i, n] of numbers.entries()) {
    const [d, e] = [directions[i % 4], directions[(i + 1) % 4]];
    said.push(
      `The goal is ${n} rows ${d} and ${n} columns ${e}.`,
      `open ways: ${d}, ${e}; route: ${d}, ${d}, ${e}, stop.`,
    );
    said.push(
      `I count ${n} of them: the number is ${n}.`,
      `${n} steps ${d}, then ${n} steps ${e}.`,
      `There are ${n} objects, ${n} pieces and ${n} frames.`,
    );
    said.push(`row ${i}, column ${i}`, `rows and columns: ${i}, ${i}`);
  }
  for (const color of colors)
    said.push(`The color is ${color}.`, `a ${color} square, a ${color} circle and a ${color} dot`, `say ${color}`);
  for (let i = 0; i < 3; i++) said.push(...SCENES, WORDS.replaceAll("\n", " "));
  return said;
}

/** Worlds to come: photographs, counting, jigsaws, rotation, robots, frames of films, memory. */
const SCENES: readonly string[] = [
  "Count the objects of this kind in the photo and mark every one of them with a point; then answer with the number.",
  "How many apples, cars, people, birds, cups and chairs are in the picture? Say the count.",
  "('mark', (0.25, 0.75))",
  "('guess', 4)",
  "('undo', 'undo')",
  "('swap', ((0, 1), (1, 0)))",
  "('reorder', [2, 0, 1, 3])",
  "('rotate', 45)",
  "('rotate', [30, -15, 90])",
  "('turn', 'left')",
  "('change', (15, -10))",
  "('move', [0.5, -1.5, 30])",
  "Swap two pieces of the jigsaw, or put all pieces into a new order, until the photo is whole again.",
  "The piece in the top left corner belongs in the bottom right corner; its neighbor has the same edge.",
  "Turn left or right, or move forward one cell; you look along a corridor with walls on both sides, and the exit is ahead.",
  "You face north; the exit is to the east. The path ahead is blocked, so turn around and go back south, then west.",
  "Rotate the photo by an angle in degrees, clockwise or counter-clockwise, until it is upright like the original.",
  "Rotate the shape about its axes, with roll, pitch and yaw in degrees, until it matches the target view.",
  "Change the hue and the saturation of the selected region until the colors look natural; brightness stays the same.",
  "Point at the object that the sentence describes: the person in the middle with a white shirt, second from the left.",
  "The frames of a video are shuffled. Put them back in the order of time: what happens first, then next, and last.",
  "The views zoom in on one point. Sort them from the widest view to the closest; each lies inside the one before.",
  "Move the gripper of the robot arm to the goal: forward, backward, left, right, up or down; open and close it to pick the cube from the table and place it.",
  "The arm is too high and too far to the right of the cube; move it down slowly, close the gripper and lift.",
  "Current state: the player stands at row 2, column 3; the box lies one cell to the left; the target is two cells below it.",
  "Next state: after pushing the box down it will be on the target, and the player will stand where the box was.",
  "I am at the start. The goal lies three rows below and two columns to the right. Right is a wall, down is open, so I go down first.",
  "The hole is right below me, so going down would end the episode; I go around it to the left.",
  "The last move changed nothing because there was a wall. I try another direction and remember not to go there again.",
  "The equation does not hold yet: moving one match from the plus sign makes it true. I check it once more, then stop.",
  "The block must slide up, but another block is in the way; first move that one to the empty cell.",
  "Everything is in its place, both boards are the same, the task is solved: stop now.",
  "First observe what you see, then think step by step about what to do, choose an action and predict what you will see after it.",
  "Answer with exactly one action in the given format. Do not write anything else. Yes, no, true, false, none, unknown.",
  "The question is about the image. What is shown here? Which of these is larger, smaller, closer or farther away?",
  "Let me think. I should look at the picture again. It shows the whole board with its rows, columns, walls and cells.",
  "The answer is 42. The result of 7 + 5 - 3 is 9; 6 times 4 is 24, and 81 divided by 9 is 9.",
  "The top, bottom, left and right edge; the upper and lower half; the middle, center and corner; horizontal and vertical lines.",
  "small, large, long, short, same, different, empty, full, open, closed, first, second, third, last, before, after, again, already",
  "You have three turns left. The time is almost over; give your final answer. Well done, this is correct. That was wrong, try again.",
];

/** Everyday words, for whatever an image may show. */
const WORDS = `
able about across act add age air all almost along also always animal any apple arrow art ask away baby back bag ball banana bar base bear bed bell belt bench best better
bicycle big bird body book both bottle bowl boy brain branch bread bridge bright bring broken brush build building bus button buy cake camera card carry cat catch chair chance change check
child choose church circle city class clean clear climb clock cloud coat coffee cold come cook cool corn could cover cow cross crowd cup curve cut dark day deep desk dish distance dog draw
dress drink drive drop dry duck each ear earth easy eat egg elephant else engine enough even ever every eye face fall family far fast father feel fence few field fill find finger finish
fire fish flag flat floor flower fly follow food foot fork forest found frame free fresh friend fruit game garden gate get girl give glass good grass great ground group grow guide hair
hand hang happy hard hat head hear heart heavy help hide high hill hit hold home horse hot house hour how human idea into jump just keep kind kitchen kite knife know lake lamp land
large later laugh lead leaf learn leg lemon less let letter level light line lion list little live lock log look lose lot loud low make man many map mark may mean meet might mile milk
mind minute mirror moment money month moon more morning most mother mountain mouse mouth much music must name narrow need never new night noise nose note number ocean off office often
old only order other our outside over own page paint pair pan paper parent park part party pass pen pencil people person phone piano pick pizza plan plane plant plate play point pole
pot press pull push quick quiet rain reach read ready real rest rice ride ring river road rock roof room root rope rose round rule run sad safe said sail salt sand save score screen
sea season seat see seem sell send set shade shadow shape share sheep shelf shine ship shirt shoe shop should shoulder show side sign silver simple since sing sister sit size skin sky
sleep slow smile smooth snow soft solid some son song soon sound space speak speed spoon sport spot stand star start station stay still stone store storm street strong suitcase sun
surface sweet swim table tail take talk tall taste team tell tent than thank their them these they thick thin thing think those though thread through throw tie tiger tired today together
tool tooth touch toward tower town toy track train travel tree triangle truck trust umbrella under use usual very voice wait walk want warm wash watch water wave wear weather week weight
wheel while who why wide wild will wind window wine winter wish without woman wood word work world would wrap write year young your zebra zero`;

/** Turns of each episode that are heard. */
const TURNS = 4;

async function listen(env: WorldEnv, seed: number, texts: string[]): Promise<void> {
  const random = new NumpyRandom(seed);
  const hear = (messages: readonly Message[]) => {
    // The role is encoded together with the first words.
    for (const message of messages) texts.push(`${message.role}\n${textOf(message)}`);
  };
  hear(await env.reset(seed));
  for (let turn = 0; turn < TURNS; turn++) {
    // A random move may have made the episode hopeless: then there is no plan to print.
    const plan = (turn % 2 === 0 ? await env.world.solve?.() : undefined) ?? [];
    const { protocol, world } = env;
    const reply =
      plan.length === 0 ? env.randomReply(random) : protocol.print(plan.slice(0, protocol.maxActions), world.actions);
    hear([assistant(reply)]);
    const step = await env.step(reply);
    hear(step.observation);
    if (step.terminated || step.truncated) return;
  }
}

const texts = [...Array.from({ length: 10 }, () => common).flat(), ...sentences()].map((said) => `assistant\n${said}`);
for (const { id, kind, needs } of await listEnvs()) {
  if (kind !== "world" || needs !== undefined) continue;
  for (const protocol of protocolNames) {
    for (const prompt of ["full", "brief"] as const) {
      // Boards drawn in letters are long: heard once, they do not crowd out words.
      const observation = prompt === "brief" && protocol === "tuple" ? "text" : "image";
      const env = await makeWorldEnv(id, { protocol, prompt, observation });
      await listen(env, mixSeed("corpus", id, protocol, prompt), texts);
      await env.close();
    }
  }
}

const { model } = trainTokenizer(texts, VOCAB) as { model: { merges: [string, string][] } };
const lines = [""];
for (const pair of model.merges) {
  const line = lines.at(-1) as string;
  const longer = line === "" ? pair.join(" ") : `${line} ${pair.join(" ")}`;
  if (longer.length <= LINE) lines[lines.length - 1] = longer;
  else lines.push(pair.join(" "));
}
process.stdout.write(`/**
 * The byte pairs that the presets' tokenizers merge, the commonest first: two words a pair, in byte characters. A vocabulary of n tokens
 * takes the first n - ${MIN_VOCAB} tokens they make. Frozen: trained folders, recipes and figures rest on these ids, so a new world must not change
 * a line (\`presets.test.ts\`). Made once by \`bench/learn-merges.ts\`.
 */
export const MERGES: readonly string[] = [
${lines.map((line) => `  ${JSON.stringify(line)},`).join("\n")}
];
`);
