/** sokoban after VAGEN's NoThink: the answer alone. What it shares with the other strategies is in parts/world-modelling.ts. */
import { worldModelling } from "./parts/world-modelling.ts";

export default worldModelling("sokoban", "none", {
  expect:
    "0.71 after the warm start and 0.89 at the end of 1.2 and 0.36 million tokens, fewer than its own, three seeds (npm run bench -- world-model); not yet run to its own end. VAGEN reports a success of 0.57 for its 3B model, on other boards and prompts",
});
