/** sokoban after VAGEN's StateEstimation: what is seen, then the answer; true descriptions are paid. What it shares with the other strategies is in parts/world-modelling.ts. */
import { worldModelling } from "./parts/world-modelling.ts";

export default worldModelling("sokoban", "state", {
  expect: "not yet run to its end here. VAGEN reports a success of 0.56 for its 3B model, on other boards and prompts",
});
