/** What `import … from "saccade"` offers: what most users need. Everything else is in the rooms, `saccade/envs`, `saccade/train` and so on. */
export { ConfigError, SaccadeError } from "./core/errors.ts";
export { Image } from "./core/image.ts";
export { assistant, image, type Message, text, textOf, user } from "./core/message.ts";
export { NumpyRandom } from "./core/random-numpy.ts";
export { mixSeed } from "./core/seed.ts";
export { type Datum, type Engine, type Learner, openEngine, registerEngine, type Sampler } from "./engine/index.ts";
export {
  type Action,
  act,
  bare,
  defineAgent,
  defineEnv,
  definePage,
  defineTask,
  defineTool,
  defineWorld,
  type Env,
  type EnvDefinition,
  makeEnv,
  makeWorld,
  makeWorldEnv,
  type Outcome,
  playDemo,
  type RewardPart,
  register,
  type Step,
  stopAction,
  sumRewards,
  type World,
  type WorldEnv,
  z,
} from "./envs/index.ts";
export { evaluateModel } from "./evaluate/index.ts";
export { Canvas, decodeImage, encodePng } from "./images/index.ts";
export { createFolder } from "./model/folder.ts";
export { type Judge, type Sequence, TokenLedger, type Trajectory } from "./rollout/index.ts";
export {
  defineRecipe,
  loadRecipe,
  type Recipe,
  type RecipeInput,
  registerEstimator,
  registerFilter,
  registerLoss,
  registerMetric,
  registerMixture,
  resolveRecipe,
  train,
} from "./train/index.ts";
export { startViewer } from "./viewer/index.ts";
