/** sokoban after VAGEN's TransitionModeling: the answer, then what will be; true predictions are paid. What it shares with the other strategies is in parts/world-modelling.ts. */
import { worldModelling } from "./parts/world-modelling.ts";

export default worldModelling("sokoban", "transition", {
  expect:
    "0.61 after the warm start and 0.80 at the end of 1.2 and 0.36 million tokens, fewer than its own, three seeds (npm run bench -- world-model); not yet run to its own end. VAGEN reports a success of 0.41 for its 3B model, on other boards and prompts",
});
