/** frozen_lake after VAGEN's FreeThink: thinking, then the answer. What it shares with the other strategies is in parts/world-modelling.ts. */
import { worldModelling } from "./parts/world-modelling.ts";

export default worldModelling("frozen_lake", "free", {
  expect: "not yet run to its end here. VAGEN reports a success of 0.68 for its 3B model, on other boards and prompts",
});
