/** sokoban after VAGEN's NoThink: the answer alone. What it shares with the other strategies is in parts/world-modelling.ts. */
import { worldModelling } from "./parts/world-modelling.ts";

export default worldModelling("sokoban", "none", {
  expect: "not yet run to its end here. VAGEN reports a success of 0.57 for its 3B model, on other boards and prompts",
});
