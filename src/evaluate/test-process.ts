/** For tests: an evaluation in a process of its own, to be killed. It prints each seed once it says that it is written down. */
import "../../worlds/register.ts";
import { type EvaluationOptions, evaluateModel } from "./evaluate.ts";

const options = JSON.parse(process.argv[2] as string) as EvaluationOptions;
await evaluateModel({ ...options, onEpisode: ({ seed }) => process.stdout.write(`${seed}\n`) });
