/** frozen_lake after VAGEN's StateEstimation: what is seen, then the answer; true descriptions are paid. What it shares with the other strategies is in parts/world-modelling.ts. */
import { worldModelling } from "./parts/world-modelling.ts";

export default worldModelling("frozen_lake", "state", {
  expect: "not yet run to its end here. VAGEN reports a success of 0.68 for its 3B model, on other boards and prompts",
});
