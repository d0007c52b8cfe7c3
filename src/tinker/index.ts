/** A client of the Tinker API, with the names of the official SDK: methods in camel case, data as it is on the wire. */

export { type ConnectionOptions, HOSTED_URL } from "./connection.ts";
export {
  APIConnectionError,
  APIStatusError,
  RequestFailedError,
  TinkerError,
} from "./errors.ts";
export { parseTinkerPath, RestClient, type TinkerPath } from "./rest-client.ts";
export { SamplingClient } from "./sampling-client.ts";
export { type ModelOptions, ServiceClient, type ServiceClientOptions } from "./service-client.ts";
export { type CustomLossFn, TrainingClient } from "./training-client.ts";
export {
  ADAM_DEFAULTS,
  type AdamParams,
  type Checkpoint,
  type CheckpointsListResponse,
  type Cursor,
  type Datum,
  type EncodedTextChunk,
  type ExternalWeightsUrlsResponse,
  type ForwardBackwardOutput,
  type GetInfoResponse,
  type GetSamplerResponse,
  type GetServerCapabilitiesResponse,
  type GetSessionResponse,
  type ImageAssetPointerChunk,
  type ImageChunk,
  type ListSessionsResponse,
  type LoadWeightsResponse,
  type LoraConfig,
  type LossFnConfig,
  type LossFnType,
  ModelInput,
  type ModelInputChunk,
  type OptimizerParams,
  type OptimStepResponse,
  type SampledSequence,
  type SampleOptions,
  type SampleResponse,
  type SamplingParams,
  type SaveOptions,
  type SaveWeightsExternalResponse,
  type SaveWeightsResponse,
  type SupportedModel,
  shapeOf,
  type TensorData,
  type TensorDtype,
  type TopLogprobs,
  type TrainingRun,
  type TrainingRunsResponse,
  tensorOf,
  type UserMetadata,
  type WeightsInfoResponse,
} from "./types.ts";
