/** Answers for agent.py in the model's place: what a warm start imitates. */
import { answers } from "./signal.ts";

export default answers;
