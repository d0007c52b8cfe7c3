/** frozen_lake after VAGEN's WorldModeling: what is seen, the answer, what will be; both are paid. What it shares with the other strategies is in parts/world-modelling.ts. */
import { worldModelling } from "./parts/world-modelling.ts";

export default worldModelling("frozen_lake", "both", {
  expect: "not yet run to its end here. VAGEN reports a success of 0.71 for its 3B model, on other boards and prompts",
});
