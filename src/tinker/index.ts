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
export * from "./types.ts";
