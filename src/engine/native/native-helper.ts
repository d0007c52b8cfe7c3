/** A worker thread that only helps inside WebAssembly kernels (native/wasm/crew.cc); compiled kernels start such threads themselves. */
import { workerData } from "node:worker_threads";
import { helpWasm } from "./kernels/wasm.ts";
import type { WasmThread } from "./kernels/wasm-memory.ts";

helpWasm(workerData as WasmThread);
