/** Serving a model: OpenAI's routes and vLLM's. */
export { type ServeOptions, type ServeServer, startServer } from "./server.ts";
