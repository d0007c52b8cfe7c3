/** frozen_lake after VAGEN-Full: what is seen and what will be are said and paid, and credit goes over turns first, then over tokens. */
import { worldModelling } from "./parts/world-modelling.ts";

export default worldModelling("frozen_lake", "both", {
  name: "frozen-lake-wm-full",
  advantage: { name: "bi-level-gae", turnGamma: 0.95, whiten: true },
  expect: "not yet run to its end here. VAGEN reports a success of 0.74 for its 3B model, on other boards and prompts",
});
