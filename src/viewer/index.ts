/** The run viewer: its server, its export, and what its pages read. */
export * from "./api.ts";
export { EXPORT_BYTES, type ExportOptions, type ExportReport, exportRuns } from "./export.ts";
export { startViewer, type Viewer, type ViewerOptions } from "./server.ts";
export { embeddedSource, httpSource } from "./source.ts";
export { findWebFolder } from "./web-files.ts";
