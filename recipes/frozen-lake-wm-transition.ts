/** frozen_lake after VAGEN's TransitionModeling: the answer, then what will be; true predictions are paid. What it shares with the other strategies is in parts/world-modelling.ts. */
import { worldModelling } from "./parts/world-modelling.ts";

export default worldModelling("frozen_lake", "transition", {
  expect: "not yet run to its end here. VAGEN reports a success of 0.76 for its 3B model, on other boards and prompts",
});
