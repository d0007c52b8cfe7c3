import { expect, test } from "vitest";
import { drawChart } from "./chart.ts";

const chart = {
  title: "lakes",
  curves: [
    {
      name: "sampled",
      points: [
        [0, 0.4],
        [80, 0.7],
        [160, 0.9],
      ] as const,
    },
  ],
  levels: [{ name: "ceiling", y: 1 }],
};

const inked = (image: ReturnType<typeof drawChart>, [r, g, b]: readonly number[]) => {
  const found: [number, number][] = [];
  for (let i = 0; i < image.data.length; i += 3) {
    if (image.data[i] === r && image.data[i + 1] === g && image.data[i + 2] === b) {
      found.push([(i / 3) % image.width, Math.floor(i / 3 / image.width)]);
    }
  }
  return found;
};

test("a higher value is drawn higher, a later step further right", () => {
  const image = drawChart(chart);
  const plot = inked(image, [0, 107, 164]).filter(([, y]) => y < image.height - 70);
  const left = plot.filter(([x]) => x < 80).map(([, y]) => y);
  const right = plot.filter(([x]) => x > image.width - 40).map(([, y]) => y);
  expect(Math.min(...left)).toBeGreaterThan(Math.max(...right));
});

test("values that are not finite, one point and no point at all are drawn without complaint", () => {
  const points = [
    [0, Number.NaN],
    [1, 0.5],
  ] as const;
  for (const curves of [[{ name: "a", points }], [{ name: "a", points: [] }], []]) {
    expect(drawChart({ ...chart, curves }).width).toBe(720);
  }
});
