/**
 * Reads what a shared library offers and needs, in the formats of Linux (ELF), macOS (Mach-O) and Windows (PE), 64-bit and little-endian. prebuild.ts checks with it
 * libraries for systems that it can't run. Facts about the layouts are in elf(5), <mach-o/loader.h> and Microsoft's PE format.
 */

export type Library = {
  readonly format: "ELF" | "Mach-O" | "PE";
  /** Names of functions that others can call, sorted. macOS puts an underscore before each; it is left out. */
  readonly exports: readonly string[];
  /** Names of the libraries that must be there, in their order. */
  readonly needs: readonly string[];
  /** ELF: versions of the C library's symbols, such as "GLIBC_2.28". */
  readonly versions: readonly string[];
};

export function readLibrary(bytes: Uint8Array): Library {
  const file = new Bytes(bytes);
  if (file.u32(0) === 0x464c457f) return readElf(file);
  if (file.u32(0) === 0xfeedfacf) return readMachO(file);
  if (file.u16(0) === 0x5a4d) return readPe(file);
  throw new Error("The file is neither ELF nor Mach-O (64-bit, one architecture) nor PE.");
}

class Bytes {
  readonly #view: DataView;
  readonly #bytes: Uint8Array;
  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }
  u8 = (at: number) => this.#view.getUint8(at);
  u16 = (at: number) => this.#view.getUint16(at, true);
  u32 = (at: number) => this.#view.getUint32(at, true);
  u64 = (at: number) => Number(this.#view.getBigUint64(at, true));
  text = (at: number) => Buffer.from(this.#bytes.subarray(at, this.#bytes.indexOf(0, at))).toString("latin1");
}

const ELF = { dynamic: 6, symbols: 11, needVersions: 0x6ffffffe, needed: 1 };

function readElf(file: Bytes): Library {
  const start = file.u64(40);
  const sections = Array.from({ length: file.u16(60) }, (_, i) => {
    const at = start + i * file.u16(58);
    return {
      type: file.u32(at + 4),
      from: file.u64(at + 24),
      size: file.u64(at + 32),
      link: file.u32(at + 40),
      info: file.u32(at + 44),
    };
  });
  const strings = (link: number) => sections[link]?.from ?? 0;
  const exports: string[] = [];
  const needs: string[] = [];
  const versions: string[] = [];
  for (const { type, from, size, link, info } of sections) {
    if (type === ELF.symbols) {
      for (let at = from; at < from + size; at += 24) {
        const isGlobal = file.u8(at + 4) >> 4 !== 0;
        const isDefined = file.u16(at + 6) !== 0;
        if (isGlobal && isDefined) exports.push(file.text(strings(link) + file.u32(at)));
      }
    } else if (type === ELF.dynamic) {
      for (let at = from; at < from + size; at += 16)
        if (file.u64(at) === ELF.needed) needs.push(file.text(strings(link) + file.u64(at + 8)));
    } else if (type === ELF.needVersions) {
      for (let at = from, left = info; left > 0; left--, at += file.u32(at + 12))
        for (let one = at + file.u32(at + 8), more = file.u16(at + 2); more > 0; more--, one += file.u32(one + 12))
          versions.push(file.text(strings(link) + file.u32(one + 8)));
    }
  }
  return { format: "ELF", exports: exports.sort(), needs, versions: versions.sort() };
}

const MACH = { dylib: 0xc, dyldInfo: [0x22, 0x80000022], exportsTrie: 0x80000033 };

function readMachO(file: Bytes): Library {
  const exports: string[] = [];
  const needs: string[] = [];
  let at = 32;
  for (let left = file.u32(16); left > 0; left--) {
    const command = file.u32(at);
    if (command === MACH.dylib) needs.push(file.text(at + file.u32(at + 8)));
    else if (command === MACH.exportsTrie && file.u32(at + 12) > 0) walkTrie(file, file.u32(at + 8), exports);
    else if (MACH.dyldInfo.includes(command) && file.u32(at + 44) > 0) walkTrie(file, file.u32(at + 40), exports);
    at += file.u32(at + 4);
  }
  return { format: "Mach-O", exports: exports.map((name) => name.replace(/^_/, "")).sort(), needs, versions: [] };
}

/** A node: the size of what it says about a symbol that ends here, then its children, each the rest of a name and where its node is. */
function walkTrie(file: Bytes, root: number, found: string[], offset = 0, name = ""): void {
  let at = root + offset;
  const number = () => {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = file.u8(at++);
      value |= (byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  const size = number();
  if (size > 0) found.push(name);
  at += size;
  for (let children = file.u8(at++); children > 0; children--) {
    const rest = file.text(at);
    at += rest.length + 1;
    walkTrie(file, root, found, number(), name + rest);
  }
}

function readPe(file: Bytes): Library {
  const header = file.u32(60);
  const optional = header + 24;
  const table = optional + file.u16(header + 20);
  /** Where in the file an address of the loaded library is. */
  const place = (address: number): number => {
    for (let i = 0; i < file.u16(header + 6); i++) {
      const at = table + i * 40;
      const from = file.u32(at + 12);
      if (address >= from && address < from + file.u32(at + 16)) return address - from + file.u32(at + 20);
    }
    throw new Error(`The library has no section with the address ${address}.`);
  };
  const [exported, imported] = [file.u32(optional + 112), file.u32(optional + 120)];
  const exports: string[] = [];
  if (exported !== 0) {
    const names = place(file.u32(place(exported) + 32));
    for (let i = 0; i < file.u32(place(exported) + 24); i++) exports.push(file.text(place(file.u32(names + 4 * i))));
  }
  const needs: string[] = [];
  for (let at = imported && place(imported); at !== 0 && file.u32(at + 12) !== 0; at += 20)
    needs.push(file.text(place(file.u32(at + 12))));
  return { format: "PE", exports: exports.sort(), needs, versions: [] };
}
