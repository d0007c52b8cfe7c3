/** A page gets the same digests and the same seeds as Node. */
import { createHash } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import * as node from "./platform.ts";
import * as browser from "./platform-browser.ts";

test("both platforms export the same names", () => {
  expect(Object.keys(browser).sort()).toEqual(Object.keys(node).sort());
});

test("the browser's SHA-256 is Node's, for any pieces around the edges of a block", () => {
  const bytes = fc.uint8Array({ maxLength: 200 });
  fc.assert(
    fc.property(fc.array(fc.oneof(bytes, fc.string()), { maxLength: 4 }), (pieces) => {
      expect(Buffer.from(browser.sha256(...pieces)).toString("hex")).toBe(
        Buffer.from(node.sha256(...pieces)).toString("hex"),
      );
    }),
  );
  for (const length of [0, 54, 55, 56, 63, 64, 65, 119, 120, 100_000]) {
    const data = new Uint8Array(length).map((_, i) => i * 7);
    expect(Buffer.from(browser.sha256(data)).toString("hex")).toBe(createHash("sha256").update(data).digest("hex"));
  }
});

test("what is to run soon runs in order, after what was asked before", async () => {
  const order: number[] = [];
  await new Promise<void>((done) => {
    browser.soon(() => order.push(1));
    browser.soon(() => {
      order.push(2);
      browser.soon(() => {
        order.push(3);
        done();
      });
    });
    queueMicrotask(() => order.push(0));
  });
  expect(order).toEqual([0, 1, 2, 3]);
});
