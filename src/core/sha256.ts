/** SHA-256 (FIPS 180-4) in plain TypeScript, for browsers: their own is asynchronous and only for secure pages. Node has a faster one. */

/** Fractional parts of the cube roots of the first 64 primes, and of the square roots of the first 8. */
const [ROUNDS, START] = constants();

/** The digest of these bytes, one piece after the other. */
export function digest(pieces: readonly Uint8Array[]): Uint8Array {
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
  // A one bit, zeros, and the length in bits fill the last block.
  const padded = new Uint8Array(Math.ceil((length + 9) / 64) * 64);
  let at = 0;
  for (const piece of pieces) {
    padded.set(piece, at);
    at += piece.length;
  }
  padded[length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(length / 0x2000_0000));
  view.setUint32(padded.length - 4, length << 3);
  const state = Uint32Array.from(START);
  const words = new Int32Array(64);
  for (let block = 0; block < padded.length; block += 64) mix(state, words, view, block);
  const out = new Uint8Array(32);
  const bytes = new DataView(out.buffer);
  state.forEach((word, i) => {
    bytes.setUint32(i * 4, word);
  });
  return out;
}

function mix(state: Uint32Array, words: Int32Array, view: DataView, block: number): void {
  for (let i = 0; i < 16; i++) words[i] = view.getInt32(block + i * 4);
  for (let i = 16; i < 64; i++) {
    const [x, y] = [words[i - 15] as number, words[i - 2] as number];
    const low = turn(x, 7) ^ turn(x, 18) ^ (x >>> 3);
    const high = turn(y, 17) ^ turn(y, 19) ^ (y >>> 10);
    words[i] = ((words[i - 16] as number) + low + (words[i - 7] as number) + high) | 0;
  }
  let [a, b, c, d, e, f, g, h] = state as unknown as [number, number, number, number, number, number, number, number];
  for (let i = 0; i < 64; i++) {
    const chosen = (e & f) ^ (~e & g);
    const first =
      (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + chosen + (ROUNDS[i] as number) + (words[i] as number)) | 0;
    const second = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    [h, g, f, e] = [g, f, e, (d + first) | 0];
    [d, c, b, a] = [c, b, a, (first + second) | 0];
  }
  [a, b, c, d, e, f, g, h].forEach((word, i) => {
    state[i] = (state[i] as number) + word;
  });
}

function turn(word: number, bits: number): number {
  return (word >>> bits) | (word << (32 - bits));
}

function constants(): [Int32Array, Uint32Array] {
  const primes: number[] = [];
  for (let candidate = 2; primes.length < 64; candidate++) {
    if (primes.every((prime) => candidate % prime !== 0)) primes.push(candidate);
  }
  const fraction = (x: number) => Math.floor((x - Math.floor(x)) * 2 ** 32);
  return [
    Int32Array.from(primes, (prime) => fraction(Math.cbrt(prime)) | 0),
    Uint32Array.from(primes.slice(0, 8), (prime) => fraction(Math.sqrt(prime))),
  ];
}
