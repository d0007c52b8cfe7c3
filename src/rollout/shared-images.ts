/**
 * The images that programs send. A request repeats all images of its conversation, and siblings are often shown the same ones: each is decoded once for as long as
 * any episode holds it. What an engine keeps for an image (its pixels as patches, its hash) is then kept once, too.
 */
import type { Image } from "../core/image.ts";
import { readDataUri } from "../images/openai.ts";

const held = new Map<string, WeakRef<Image>>();
const underWay = new Map<string, Promise<Image>>();
/** An image that came again after it was let go has a reference of its own, which stays. */
const letGo = new FinalizationRegistry<string>((name) => {
  if (held.get(name)?.deref() === undefined) held.delete(name);
});

/** `name`: a digest of the address. */
export function sharedImage(url: string, name: string): Promise<Image> {
  const image = held.get(name)?.deref();
  if (image !== undefined) return Promise.resolve(image);
  const started = underWay.get(name);
  if (started !== undefined) return started;
  const decoding = readDataUri(url)
    .then((decoded) => {
      held.set(name, new WeakRef(decoded));
      letGo.register(decoded, name);
      return decoded;
    })
    .finally(() => underWay.delete(name));
  underWay.set(name, decoding);
  return decoding;
}
