/** frozen_lake after VAGEN's TransitionModeling: the answer, then what will be; true predictions are paid. What it shares with the other strategies is in parts/world-modelling.ts. */
import { worldModelling } from "./parts/world-modelling.ts";

export default worldModelling("frozen_lake", "transition", {
  expect:
    "0.10 after the warm start and 0.09 at the end of 1.2 and 0.36 million tokens, fewer than its own, three seeds (npm run bench -- world-model); not yet run to its own end. VAGEN reports a success of 0.76 for its 3B model, on other boards and prompts",
});
