/**
 * For tests: an environment that throws, hangs or answers late in a share of its steps, and writes down each fault in a file (and its opening and closing), so that
 * counts can be checked whatever thread or process it ran in. What it says and pays depends on the seed and the replies alone.
 */
import { appendFileSync } from "node:fs";
import { z } from "zod";
import { Image } from "../core/image.ts";
import { image, type Message, text, user } from "../core/message.ts";
import { mixSeed } from "../core/seed.ts";
import { defineEnv } from "../envs/define.ts";

const share = z.number().min(0).max(1).default(0);

export const faultyEnv = defineEnv({
  id: "faulty",
  options: z.strictObject({
    turns: z.int().default(6),
    throws: share,
    hangs: share,
    slow: share,
    /** A hang that blocks its thread, waiting or computing, instead of a promise that never settles. */
    blocks: z.enum(["no", "waits", "computes"]).default("no"),
    exits: z.boolean().default(false),
    /** Every fault adds a line here. */
    log: z.string().optional(),
  }),
  create(options) {
    let seed = 0;
    let turn = 0;
    let closed = false;
    const note = (fault: string) => {
      if (options.log !== undefined) appendFileSync(options.log, `${fault}\n`);
    };
    note("open");
    const look = (): Message => {
      const shade = mixSeed(seed, turn) % 256;
      return user(text(`Turn ${turn} of seed ${seed}.`), image(new Image(32, 32, new Uint8Array(3072).fill(shade))));
    };
    return {
      reset(given) {
        if (closed) throw new Error("reset after close");
        seed = given;
        turn = 0;
        return [look()];
      },
      async step(reply) {
        const draw = Math.random();
        if (draw < options.throws) {
          note("throw");
          throw new Error("a fault was injected");
        }
        if (draw < options.throws + options.hangs) {
          note("hang");
          if (options.exits) process.exit(3);
          if (options.blocks === "waits") Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
          while (options.blocks === "computes");
          await new Promise(() => {});
        }
        if (draw > 1 - options.slow) await new Promise((resolve) => setTimeout(resolve, 10));
        turn += 1;
        const reward = mixSeed(seed, turn, reply) % 2;
        const info = { actions: [], parsed: true, wellFormed: true, valid: true };
        const terminated = turn >= options.turns;
        const rewards = [{ name: "task", value: reward }];
        return { observation: [look()], rewards, terminated, truncated: false, success: reward === 1, info };
      },
      close() {
        closed = true;
        note("close");
      },
    };
  },
});

export default faultyEnv;
