import { describe, expect, test } from "vitest";
import { fontMetrics, glyphMask, glyphWidth } from "./font.ts";

const PRINTABLE = Array.from({ length: 95 }, (_, i) => String.fromCharCode(32 + i));

describe("the stroke font", () => {
  test("has a glyph of its own for every printable ASCII character", () => {
    const metrics = fontMetrics(16);
    const missing = glyphMask("\u0000", metrics);
    for (const character of PRINTABLE) {
      expect(glyphMask(character, metrics).coverage).not.toEqual(missing.coverage);
    }
  });

  test.each([6, 8, 12, 16, 20, 32])("keeps glyphs within their width and line at size %i", (size) => {
    const metrics = fontMetrics(size);
    const margin = metrics.stroke + 1;
    for (const character of PRINTABLE) {
      const mask = glyphMask(character, metrics);
      expect(mask.left).toBeGreaterThanOrEqual(-margin);
      expect(mask.left + mask.width).toBeLessThanOrEqual(glyphWidth(character, metrics) + 2 * margin);
      expect(mask.top).toBeGreaterThanOrEqual(-Math.ceil(metrics.scale + margin));
      expect(mask.top + mask.height).toBeLessThanOrEqual(Math.ceil(8 * metrics.scale + 2 * margin));
    }
  });

  test("gives all digits the same width, so that columns of numbers line up", () => {
    const metrics = fontMetrics(13);
    expect(new Set([..."0123456789"].map((digit) => glyphWidth(digit, metrics))).size).toBe(1);
  });

  test("leaves at least one empty pixel between stems", () => {
    for (let size = 5; size < 40; size++) {
      for (const weight of [1, 1.6]) {
        const metrics = fontMetrics(size, weight);
        expect(metrics.gap).toBeGreaterThanOrEqual(Math.round(metrics.stroke) + 1);
      }
    }
  });

  test("draws each glyph of a size and weight once", () => {
    expect(glyphMask("g", fontMetrics(14))).toBe(glyphMask("g", fontMetrics(14)));
    expect(glyphMask("g", fontMetrics(14))).not.toBe(glyphMask("g", fontMetrics(14, 1.5)));
  });
});
