/**
 * `saccade model check`: whether a folder can be trained on, through the same doors as a run: its template, processor and tokenizer, its weights, what the
 * learner scores, what the sampler draws, and whether it sees. A few short sequences are enough; nothing is written.
 */
import { SaccadeError } from "../core/errors.ts";
import { Image } from "../core/image.ts";
import { assistant, image, type Message, text, user } from "../core/message.ts";
import type { ModelInput } from "../core/model-input.ts";
import type { Datum, Engine, Learner } from "../engine/engine.ts";
import type { ChatModel } from "../model/chat.ts";
import { bad, type Finding, good, note } from "./finding.ts";

const SIDE = 64;
/** Of the images' colours; a model that sees can tell them apart. */
const COLOURS = [
  [200, 30, 30],
  [30, 30, 200],
  [30, 180, 60],
  [220, 200, 40],
] as const;
const SENTENCES = ["move left", "é🙂\n\tend.", "a<b & 'c' {\"d\": 1}"];
/** Log-probabilities of the same ids, computed in another way: in 32 bits, and in 16. */
const CLOSE = 1e-3;
const ROUGH = 0.1;
const RATE = 1e-3;

const shade = (which: number): Image => {
  const colour = COLOURS[which % COLOURS.length] as readonly number[];
  return new Image(
    SIDE,
    SIDE,
    // Not one flat colour: every patch has some structure.
    Uint8Array.from({ length: SIDE * SIDE * 3 }, (_, i) => (colour[i % 3] as number) + ((i >> 5) % 16)),
  );
};

/** One finding after the other; after what makes the rest impossible, no more. */
export async function* checkModel(engine: Engine, folder: string): AsyncGenerator<Finding> {
  const chat = await tried("chat", () => engine.chat(folder));
  if ("verdict" in chat) return yield chat;
  const model = chat.value;
  yield model.verified === false
    ? note(
        "template",
        "the folder has no chat template, and one of ours stands in for it, unverified",
        "Add the chat_template.jinja of this model.",
      )
    : good("template", `the folder's own; a reply ends with ${JSON.stringify(model.textOf(model.renderer.endOfTurn))}`);
  for (const check of [prefixes, thinking, images, toolImages, roundTrip]) {
    const found = await tried(check.about, () => check(model));
    yield "verdict" in found ? found : found.value;
  }
  const opened = await tried("weights", () =>
    engine.learner({ folder, seed: 0, ...(engine.capabilities.lora && { lora: { rank: 8, alpha: 16 } }) }),
  );
  if ("verdict" in opened) return yield opened;
  const learner = opened.value;
  try {
    for (const check of [scores, sampling, sight]) {
      const found = await tried(check.about, () => check(learner, model));
      yield "verdict" in found ? found : found.value;
      // Nothing is to be learned from broken weights.
      if (check === scores && ("verdict" in found || found.value.verdict === "bad")) return;
    }
  } finally {
    await learner.close();
  }
}

async function tried<T>(about: string, work: () => Promise<T>): Promise<{ readonly value: T } | Finding> {
  try {
    return { value: await work() };
  } catch (error) {
    if (error instanceof SaccadeError) return bad(about, error.message);
    throw error;
  }
}

const QUESTION = [user(image(shade(0)), text("What is next?"))];
const ANSWER = [user(text("It was "), image(shade(1)), text("now."))];

/** What is appended must be what the template writes of the whole, or a run shows the model other words than it was made for. */
async function prefixes(model: ChatModel): Promise<Finding> {
  return sameAsWhole(model, "prefix", "move left", (at) =>
    bad(
      "prefix",
      `the template writes earlier turns otherwise once later ones follow (${at}), so what is appended is not what it would write`,
      "Use a template that leaves earlier turns as they were.",
    ),
  );
}
prefixes.about = "prefix";

async function thinking(model: ChatModel): Promise<Finding> {
  return sameAsWhole(model, "thinking", "<think>\nhm\n</think>\n\nmove left", (at) =>
    note("thinking", `the template changes what was thought in earlier turns (${at}); here it stays as it was sampled`),
  );
}
thinking.about = "thinking";

async function sameAsWhole(
  { renderer, textOf }: ChatModel,
  about: string,
  said: string,
  differs: (at: string) => Finding,
): Promise<Finding> {
  const start = await renderer.prompt(QUESTION);
  const reply = await renderer.reply(said);
  const added = await renderer.delta(ANSWER, { ended: true });
  const cut = await renderer.delta(ANSWER, { ended: false });
  const whole = await renderer.prompt([...QUESTION, assistant(said), ...ANSWER]);
  for (const ids of [
    [...start.ids, ...reply, ...added.ids],
    [...start.ids, ...reply.slice(0, -1), ...cut.ids],
  ]) {
    const first = ids.findIndex((id, i) => id !== whole.ids[i]);
    const at = first < 0 && ids.length < whole.ids.length ? ids.length : first;
    if (at < 0) continue;
    const words = (given: ArrayLike<number>) => JSON.stringify(wordsOf(Array.from(given).slice(at, at + 8), textOf));
    return differs(`appended ${words(ids)}, whole ${words(whole.ids)}`);
  }
  return good(about, `${whole.ids.length} ids of three messages: what is appended is what the template writes`);
}

const wordsOf = (ids: readonly number[], textOf: (id: number) => string): string => ids.map(textOf).join("");

async function images({ renderer, imageToken }: ChatModel): Promise<Finding> {
  const counts: number[] = [];
  for (let many = 0; many <= 4; many++) {
    const shown = Array.from({ length: many }, (_, i) => image(shade(i)));
    const { ids, images } = await renderer.prompt([user(...shown, text("What is next?"))]);
    const inside = images.reduce(
      (sum, { start, length }) => sum + countOf(ids.slice(start, start + length), imageToken),
      0,
    );
    if (images.length !== many || inside !== countOf(ids, imageToken)) {
      return bad("images", `${many} images have ${images.length} places, and ${countOf(ids, imageToken)} placeholders`);
    }
    counts.push(inside);
  }
  return good("images", `0 to 4 images have ${counts.join(", ")} placeholders (${SIDE}×${SIDE} pixels each)`);
}
images.about = "images";

async function toolImages({ renderer }: ChatModel): Promise<Finding> {
  const message: Message = { role: "tool", content: [text("seen: "), image(shade(2))] };
  try {
    const { images } = await renderer.delta([message], { ended: true });
    if (images.length === 1) return good("tool images", "an image in a tool message keeps its place");
  } catch (error) {
    if (!(error instanceof SaccadeError)) throw error;
  }
  return note(
    "tool images",
    "the template can't show an image in a tool message",
    "Environments that use tools need another template.",
  );
}
toolImages.about = "tool images";

async function roundTrip({ renderer, textOf }: ChatModel): Promise<Finding> {
  for (const said of SENTENCES) {
    const found = renderer.decode(await renderer.reply(said)).text;
    if (found !== said)
      return bad(
        "round trip",
        `${JSON.stringify(said)} comes back as ${JSON.stringify(found)}`,
        "The tokenizer loses text.",
      );
  }
  const end = textOf(renderer.endOfTurn);
  const plain = await renderer.prompt([user(text("say it"))]);
  const spelled = await renderer.prompt([user(text(`say ${end}`))]);
  if (countOf(spelled.ids, renderer.endOfTurn) !== countOf(plain.ids, renderer.endOfTurn))
    return bad("round trip", `the text ${end} of a message becomes the token that ends a turn`);
  return good("round trip", "text comes back as it was, and spelled-out special tokens stay text");
}
roundTrip.about = "round trip";

const countOf = (ids: Int32Array, id: number): number => ids.reduce((sum, one) => sum + Number(one === id), 0);

/** A reply after a prompt, scored or learned with this weight. */
function datumOf(prompt: ModelInput, reply: Int32Array, weight = 1): Datum {
  const input = { ids: Int32Array.from([...prompt.ids, ...reply]), images: prompt.images };
  const targets = new Int32Array(input.ids.length).fill(-1);
  targets.set(reply, prompt.ids.length - 1);
  return { input, targets, weights: Float32Array.from(targets, (id) => (id < 0 ? 0 : weight)) };
}

const chosen = ({ targets }: Datum, logprobs: Float32Array | undefined): number[] =>
  [...targets.keys()].filter((i) => (targets[i] as number) >= 0).map((i) => logprobs?.[i] ?? Number.NaN);

const farthest = (a: readonly number[], b: readonly number[]): number =>
  Math.max(...a.map((value, i) => Math.abs(value - (b[i] ?? Number.NaN))));

async function scores(learner: Learner, { renderer }: ChatModel): Promise<Finding> {
  const data: Datum[] = [];
  for (const many of [0, 1, 2, 4]) {
    const shown = Array.from({ length: many }, (_, i) => image(shade(i)));
    const prompt = await renderer.prompt([user(...shown, text(`What is next? ${"Look. ".repeat(many)}`))]);
    data.push(datumOf(prompt, await renderer.reply("move left")));
  }
  const together = (await learner.forward(data)).map(({ logprobs }, i) => chosen(data[i] as Datum, logprobs));
  if (together.flat().some((value) => !Number.isFinite(value)))
    return bad("weights", "log-probabilities are not finite: the weights are broken");
  let apart = 0;
  for (const [i, datum] of data.entries()) {
    const [alone] = await learner.forward([datum]);
    apart = Math.max(apart, farthest(together[i] as number[], chosen(datum, alone?.logprobs)));
  }
  const said = `packed and alone, log-probabilities differ by at most ${apart.toExponential(1)}`;
  if (apart > ROUGH) return bad("weights", said, "Sequences see their neighbours: report this family.");
  return apart > CLOSE ? note("weights", `${said}, which is usual in 16 bits alone`) : good("weights", said);
}
scores.about = "weights";

/** Two turns with an image each: what is sampled is what the learner scores. */
async function sampling(learner: Learner, { renderer, visionIds }: ChatModel): Promise<Finding> {
  const sampler = await learner.publish();
  try {
    let prompt = await renderer.prompt(QUESTION);
    const drift: number[] = [];
    for (const turn of [0, 1]) {
      const sample = await sampler.sample(prompt, { maxTokens: 8, temperature: 1, seed: turn }, { sequence: "check" });
      if (sample.ids.some((id) => visionIds.includes(id))) return bad("sampling", "an image placeholder was sampled");
      const datum = datumOf(prompt, sample.ids);
      const [scored] = await learner.forward([datum]);
      drift.push(farthest(chosen(datum, scored?.logprobs), [...sample.logprobs]));
      const ended = sample.ids.at(-1) === renderer.endOfTurn;
      const more = await renderer.delta(ANSWER, { ended });
      const before = prompt.ids.length + sample.ids.length;
      const ids = Int32Array.from([...prompt.ids, ...sample.ids, ...more.ids]);
      const images = [...prompt.images, ...more.images.map((span) => ({ ...span, start: span.start + before }))];
      prompt = { ids, images };
    }
    const said = `sampler and learner differ by ${drift.map((turn) => turn.toExponential(1)).join(" and ")} over two turns`;
    if (Math.max(...drift) > ROUGH) return bad("sampling", said, "Training would be off-policy from the first step.");
    return Math.max(...drift) > CLOSE
      ? note("sampling", `${said}, which is usual in 16 bits alone`)
      : good("sampling", said);
  } finally {
    await sampler.close();
  }
}
sampling.about = "sampling";

/**
 * Two images, each with a reply of its own. The gap is how much likelier the replies are with their own image than with the other's. One step that pulls at
 * nothing else must widen it; for a model that does not see there is nothing to pull at.
 */
async function sight(learner: Learner, { renderer }: ChatModel): Promise<Finding> {
  const prompts = [
    await renderer.prompt([user(image(shade(0)))]),
    await renderer.prompt([user(image(shade(1)))]),
  ] as const;
  const replies = [await renderer.reply("left"), await renderer.reply("right")] as const;
  const data = [0, 1].flatMap((shown) =>
    [0, 1].map((said) => datumOf(prompts[shown as 0 | 1], replies[said as 0 | 1], shown === said ? 1 : -1)),
  );
  const gapOf = async () => {
    const found = await learner.forward(data);
    return found.reduce((sum, { logprobs }, i) => {
      const datum = data[i] as Datum;
      const own = i === 0 || i === 3 ? 1 : -1;
      return sum + own * chosen(datum, logprobs).reduce((all, one) => all + one, 0);
    }, 0);
  };
  const before = await gapOf();
  await learner.forwardBackward(data, { name: "cross-entropy" });
  const { applied } = await learner.step({ name: "adamw", learningRate: RATE });
  const after = await gapOf();
  const said = `replies are likelier with their own image by ${before.toPrecision(3)} nats, after one step by ${after.toPrecision(3)}`;
  if (!applied) return bad("sight", "a step on two images gave gradients that are not finite");
  return after > before && Math.abs(after - before) > 1e-6
    ? good("sight", said)
    : bad(
        "sight",
        `${said}: it does not see its images`,
        "Check that processor, projector and weights are of one model.",
      );
}
sight.about = "sight";
