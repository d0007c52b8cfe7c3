/**
 * The memory of WebAssembly kernels. The threads of one pool share it: each has an instance of the module and, in the memory, a stack and a place for
 * its own variables. Buffers that kernels work on for long (activations, caches, packed weights) are allocated here; all others are copied in and out
 * (wasm.ts). A 32-bit memory ends at 4 GiB.
 */
import { EngineError } from "../../errors.ts";

/** What Node and browsers offer; TypeScript knows it only together with the DOM. */
declare const WebAssembly: {
  Module: { new (bytes: Uint8Array): WasmModule };
  Memory: new (limits: { initial: number; maximum: number; shared: true }) => WasmMemory;
  Instance: new (
    module: WasmModule,
    imports: Record<string, Record<string, unknown>>,
  ) => { readonly exports: WasmExports };
};
export type WasmModule = { readonly module: unique symbol };
export type WasmMemory = { readonly buffer: SharedArrayBuffer; grow(pages: number): number };
type WasmExports = { readonly [kernel: string]: (args: number) => number } & {
  readonly __stack_pointer: { value: number };
  readonly __tls_size: { value: number };
  readonly __wasm_init_tls: (at: number) => void;
  readonly allocate: (bytes: number) => number;
  readonly release: (at: number) => void;
  readonly help: (number: number) => never;
  readonly join: (number: number, threads: number) => void;
  readonly begin: () => void;
  readonly end: () => void;
  readonly helped: () => number;
};

/** One thread's part of a memory: all that it needs to compute there. Travels between threads. */
export type WasmThread = {
  readonly module: WasmModule;
  readonly memory: WasmMemory;
  /** Where its stack and variables are. */
  readonly area: number;
  readonly number: number;
};

const STACK_BYTES = 256 * 1024;
const LINE = 64;
const PAGE = 65536;
/** Pages of the module's data and first blocks, and of 4 GiB less one. */
const PAGES = { initial: 16, maximum: 65535 };

export function compileModule(bytes: Uint8Array): WasmModule {
  return new WebAssembly.Module(bytes);
}

/** A new memory with a place for each of `count` threads. */
export function openMemory(module: WasmModule, count: number): WasmThread[] {
  const memory = new WebAssembly.Memory({ ...PAGES, shared: true });
  const { allocate, __tls_size } = instantiate(module, memory, {});
  return Array.from({ length: count }, (_, number) => {
    const area = allocate(STACK_BYTES + __tls_size.value + LINE);
    if (area === 0) throw new EngineError(`The memory of the WebAssembly kernels has no room for ${count} threads.`);
    return { module, memory, area, number };
  });
}

export type Refusals = {
  lack(name: string, need: number, have: number): never;
  refuse(name: string, found: number): never;
};

/** An instance on its own stack. After a kernel threw, `rewind` puts the stack back. */
export function enter(
  { module, memory, area }: WasmThread,
  refusals: Refusals,
): { readonly exports: WasmExports; rewind(): void } {
  const text = (at: number) => {
    const bytes = new Uint8Array(memory.buffer, at, 64);
    return String.fromCharCode(...bytes.subarray(0, bytes.indexOf(0)));
  };
  const exports = instantiate(module, memory, {
    lack: (name: number, need: number, have: number) => refusals.lack(text(name), need, have),
    refuse: (name: number, found: number) => refusals.refuse(text(name), found),
  });
  const top = area + STACK_BYTES;
  exports.__stack_pointer.value = top;
  exports.__wasm_init_tls(Math.ceil(top / LINE) * LINE);
  return {
    exports,
    rewind() {
      exports.__stack_pointer.value = top;
    },
  };
}

function instantiate(module: WasmModule, memory: WasmMemory, refusals: Record<string, unknown>): WasmExports {
  const imports = {
    lack: refused,
    refuse: refused,
    exhausted,
    now: () => performance.now(),
    ...refusals,
  };
  return new WebAssembly.Instance(module, { env: { memory }, saccade: imports }).exports;
}

function refused(): never {
  throw new EngineError("The memory of the WebAssembly kernels can't be prepared.");
}

function exhausted(): never {
  throw new MemoryExhausted();
}

/** Kernels found no memory to work in. What they were doing is lost, and so is the pool's memory: its threads must end. */
export class MemoryExhausted extends EngineError {
  constructor() {
    super(
      "The memory of the WebAssembly kernels (4 GiB for all threads) is full. Train with fewer or shorter sequences at a time, with fewer threads, " +
        "or install a C++ compiler: compiled kernels have no such limit.",
    );
  }
}

/** Views of a memory that grows while other threads look at it. */
export class Views {
  readonly #memory: WasmMemory;
  /** A memory that grew has a new buffer; views of the old ones still show it. */
  readonly #buffers = new WeakSet<ArrayBufferLike>();
  #latest: SharedArrayBuffer;

  constructor(memory: WasmMemory) {
    this.#memory = memory;
    this.#latest = memory.buffer;
    this.#buffers.add(this.#latest);
  }

  /** Whether an array lies in this memory. */
  holds(array: ArrayBufferView): boolean {
    return array.buffer === this.#latest || this.#buffers.has(array.buffer);
  }

  /** The memory, at least up to `end`. */
  buffer(end: number): SharedArrayBuffer {
    if (this.#latest.byteLength < end) {
      // Growing by nothing brings what other threads added.
      if (this.#memory.buffer.byteLength < end) this.#memory.grow(0);
      this.#latest = this.#memory.buffer;
      this.#buffers.add(this.#latest);
    }
    if (this.#latest.byteLength < end)
      throw new EngineError(`The memory has ${this.#latest.byteLength / PAGE} pages, too few for address ${end}.`);
    return this.#latest;
  }
}
