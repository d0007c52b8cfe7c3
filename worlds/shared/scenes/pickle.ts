/**
 * Reads the data of a Python pickle (protocols 0 to 4): numbers, text, lists, tuples and dictionaries, as RefCOCO+'s lists of
 * expressions hold. A pickle may also ask for code to be run; such a one is refused.
 */
import { DataError, type Json } from "../../../src/core/index.ts";

const MARK = Symbol("mark");
type Item = Json | typeof MARK;

export function readPickle(bytes: Uint8Array): Json {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const stack: Item[] = [];
  const memo = new Map<number, Json>();
  let at = 0;

  const refuse = (why: string): never => {
    throw new DataError(`This pickle can't be read (${why}): convert it to JSON with Python.`);
  };
  const take = (length: number) => {
    if (length < 0 || at + length > bytes.length) refuse("it ends too early");
    at += length;
    return bytes.subarray(at - length, at);
  };
  const text = (length: number, latin = false) => Buffer.from(take(length)).toString(latin ? "latin1" : "utf8");
  const line = () => {
    const end = bytes.indexOf(10, at);
    if (end < 0) refuse("it ends too early");
    const read = text(end - at, true);
    at = end + 1;
    return read;
  };
  const byte = () => take(1)[0] as number;
  const word = () => view.getUint32(take(4).byteOffset - bytes.byteOffset, true);
  const long = (length: number) => {
    const digits = take(length);
    const value = digits.reduceRight((sum, digit) => sum * 256 + digit, 0);
    return length > 0 && (digits[length - 1] as number) > 127 ? value - 256 ** length : value;
  };
  const pop = (): Json => {
    const item = stack.pop();
    return item === undefined || item === MARK ? refuse("it is damaged") : item;
  };
  const popToMark = (): Json[] => {
    const from = stack.lastIndexOf(MARK);
    if (from < 0) refuse("it is damaged");
    return stack.splice(from).slice(1) as Json[];
  };
  const last = (): Json => stack.at(-1) as Json;
  const list = (): Json[] => (Array.isArray(last()) ? (last() as Json[]) : refuse("it is damaged"));
  const set = (pairs: readonly Json[]) => {
    const target = last() as Record<string, Json>;
    for (let i = 0; i + 1 < pairs.length; i += 2) {
      Object.defineProperty(target, String(pairs[i]), { value: pairs[i + 1], enumerable: true, configurable: true });
    }
  };
  const remember = (index: number) => memo.set(index, last());
  const recall = (index: number) => stack.push(memo.get(index) ?? null);

  for (;;) {
    const op = byte();
    switch (String.fromCharCode(op)) {
      case "\x80": // protocol
        byte();
        break;
      case "\x95": // frame
        take(8);
        break;
      case ".":
        return pop();
      case "(":
        stack.push(MARK);
        break;
      case "0":
        stack.pop();
        break;
      case "1":
        popToMark();
        break;
      case "N":
        stack.push(null);
        break;
      case "\x88":
        stack.push(true);
        break;
      case "\x89":
        stack.push(false);
        break;
      case "I": {
        const digits = line();
        stack.push(digits === "01" ? true : digits === "00" ? false : Number(digits));
        break;
      }
      case "L":
        stack.push(Number(line().replace(/L$/, "")));
        break;
      case "F":
        stack.push(Number(line()));
        break;
      case "J":
        stack.push(word() | 0);
        break;
      case "K":
        stack.push(byte());
        break;
      case "M":
        stack.push(byte() + 256 * byte());
        break;
      case "\x8a":
        stack.push(long(byte()));
        break;
      case "\x8b":
        stack.push(long(word()));
        break;
      case "G":
        stack.push(view.getFloat64(take(8).byteOffset - bytes.byteOffset));
        break;
      case "S":
        stack.push(line().slice(1, -1));
        break;
      case "T":
        stack.push(text(word(), true));
        break;
      case "U":
        stack.push(text(byte(), true));
        break;
      case "V":
        stack.push(line().replace(/\\u([0-9a-fA-F]{4})/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16))));
        break;
      case "X":
        stack.push(text(word()));
        break;
      case "\x8c":
        stack.push(text(byte()));
        break;
      case "]":
      case ")":
        stack.push([]);
        break;
      case "}":
        stack.push({});
        break;
      case "l":
      case "t":
        stack.push(popToMark());
        break;
      case "d": {
        const pairs = popToMark();
        stack.push({});
        set(pairs);
        break;
      }
      case "a": {
        const item = pop();
        list().push(item);
        break;
      }
      case "e": {
        const items = popToMark();
        list().push(...items);
        break;
      }
      case "s": {
        const value = pop();
        set([pop(), value]);
        break;
      }
      case "u":
        set(popToMark());
        break;
      case "\x85":
      case "\x86":
      case "\x87": {
        const items = Array.from({ length: op - 0x84 }, pop);
        stack.push(items.reverse());
        break;
      }
      case "p":
        remember(Number(line()));
        break;
      case "q":
        remember(byte());
        break;
      case "r":
        remember(word());
        break;
      case "\x94":
        remember(memo.size);
        break;
      case "g":
        recall(Number(line()));
        break;
      case "h":
        recall(byte());
        break;
      case "j":
        recall(word());
        break;
      default:
        refuse(`it holds more than data: opcode ${op}`);
    }
  }
}
