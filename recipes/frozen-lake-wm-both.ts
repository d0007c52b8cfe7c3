/** frozen_lake after VAGEN's WorldModeling: what is seen, the answer, what will be; both are paid. What it shares with the other strategies is in parts/world-modelling.ts. */
import { worldModelling } from "./parts/world-modelling.ts";

export default worldModelling("frozen_lake", "both", {
  expect:
    "seed 0: 0.30 sampled and 0.45 greedy after the warm start, 0.54 and 0.57 at the end; 0.11 and 0.11 sampled with 1.2 and 0.36 million tokens, three seeds (npm run bench -- world-model). VAGEN reports a success of 0.71 for its 3B model, on other boards and prompts",
});
