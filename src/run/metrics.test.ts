import { expect, test } from "vitest";
import { ConfigError } from "../core/errors.ts";
import { checkMetric, METRICS, metricInfo } from "./metrics.ts";

test("every metric has one row, with a meaning", () => {
  expect(new Set(METRICS.map(({ name }) => name)).size).toBe(METRICS.length);
  for (const { meaning } of METRICS) expect(meaning).toMatch(/\.$/);
});

test.each([
  ["train/success", "train/success"],
  ["train/success/maze_2d/easy", "train/success/*"],
  ["sight/gap_turn/3", "sight/gap_turn/*"],
  ["custom/my/own", "custom/*"],
])("%s is known as %s", (name, row) => {
  expect(metricInfo(name)?.name).toBe(row);
  expect(() => checkMetric(name)).not.toThrow();
});

test.each(["train/sucess", "train/turns/maze", "train/success/", "train/success/*", "custom", "", "/"])(
  '"%s" is refused',
  (name) => {
    expect(metricInfo(name)).toBeUndefined();
    expect(() => checkMetric(name)).toThrow(ConfigError);
  },
);
