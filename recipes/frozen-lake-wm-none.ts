/** frozen_lake after VAGEN's NoThink: the answer alone. What it shares with the other strategies is in parts/world-modelling.ts. */
import { worldModelling } from "./parts/world-modelling.ts";

export default worldModelling("frozen_lake", "none", {
  expect:
    "seed 0: 0.59 sampled and 0.97 greedy after the warm start, 0.95 and 0.96 at the end; 0.75 and 0.85 sampled with 1.2 and 0.36 million tokens, three seeds (npm run bench -- world-model). VAGEN reports a success of 0.09 for its 3B model, on other boards and prompts",
});
