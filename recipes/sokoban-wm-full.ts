/** sokoban after VAGEN-Full: what is seen and what will be are said and paid, and credit goes over turns first, then over tokens. */
import { worldModelling } from "./parts/world-modelling.ts";

export default worldModelling("sokoban", "both", {
  name: "sokoban-wm-full",
  advantage: { name: "bi-level-gae", turnGamma: 0.95, whiten: true },
  teaches: "push a box onto its target, describing and predicting (PPO, bi-level GAE)",
  expect:
    "0.49 after the warm start and 0.66 at the end of 1.2 and 0.36 million tokens, fewer than its own, three seeds (npm run bench -- world-model); not yet run to its own end. VAGEN reports a success of 0.79 for its 3B model, on other boards and prompts",
});
