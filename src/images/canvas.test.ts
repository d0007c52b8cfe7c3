import { describe, expect, test } from "vitest";
import { ImageError } from "../core/errors.ts";
import { Image } from "../core/image.ts";
import { Canvas, type Color, type Point } from "./canvas.ts";

const BLACK: Color = [0, 0, 0];
const RED: Color = [255, 0, 0];

/** Darkness of each pixel on a white canvas, row by row: 0 is untouched, 255 is black. */
function ink(canvas: Canvas): number[][] {
  return Array.from({ length: canvas.height }, (_, y) =>
    Array.from({ length: canvas.width }, (_, x) => 255 - canvas.data[(y * canvas.width + x) * 3]!),
  );
}

/** Ink in pixels: 1 for each black pixel. */
const area = (canvas: Canvas) =>
  ink(canvas)
    .flat()
    .reduce((sum, value) => sum + value, 0) / 255;

function inkBox(canvas: Canvas) {
  const rows = ink(canvas);
  const [xs, ys]: [number[], number[]] = [[], []];
  rows.forEach((row, y) => {
    row.forEach((value, x) => {
      if (value === 0) return;
      xs.push(x);
      ys.push(y);
    });
  });
  return { left: Math.min(...xs), top: Math.min(...ys), right: Math.max(...xs) + 1, bottom: Math.max(...ys) + 1 };
}

const blank = (width = 40, height = 40) => new Canvas(width, height);

describe("Canvas", () => {
  test("starts white or in the colour asked for", () => {
    expect([...new Canvas(1, 2).data]).toEqual([255, 255, 255, 255, 255, 255]);
    expect([...new Canvas(2, 1, [1, 2, 3]).data]).toEqual([1, 2, 3, 1, 2, 3]);
    expect(() => new Canvas(0, 5)).toThrow(ImageError);
  });

  test("copies images in and out, so neither side sees later drawing", () => {
    const image = new Image(1, 1, Uint8Array.of(1, 2, 3));
    const canvas = Canvas.from(image);
    const before = canvas.toImage();
    canvas.fillRect(0, 0, 1, 1, RED);
    expect([...image.data, ...before.data, ...canvas.data]).toEqual([1, 2, 3, 1, 2, 3, 255, 0, 0]);
  });

  test("gives the same bytes for the same scene on every machine", () => {
    const canvas = new Canvas(120, 90, [240, 240, 250]);
    canvas.fillRect(3, 4, 30, 20, [200, 30, 40]);
    canvas.strokeRect(3, 4, 30, 20, BLACK, 2);
    canvas.disc(50.5, 20.25, 9.3, [20, 90, 200]);
    canvas.ring(80, 20, 10, 3, [0, 120, 0]);
    canvas.line(5, 40, 110, 61, BLACK, { width: 2.5, cap: "round" });
    canvas.line(5, 85, 110, 35, RED, { dash: [7, 3], cap: "square", width: 3 });
    canvas.polygon([[60.5, 45], [90, 60.25], [70, 80]], [200, 160, 0]); // biome-ignore format: one shape
    canvas.text("Goal: (3, 7)", 60, 70, { size: 11, color: BLACK, align: "center" });
    expect(canvas.toImage().hash).toBe("7ee42ee1456025cb0f0c1e6c0ad1a574");
  });
});

describe("fillRect and strokeRect", () => {
  test("fill exactly their pixels, clipped", () => {
    const canvas = blank(4, 3);
    canvas.fillRect(-2, 1, 4, 9, BLACK);
    expect(ink(canvas)).toEqual([
      [0, 0, 0, 0],
      [255, 255, 0, 0],
      [255, 255, 0, 0],
    ]);
    canvas.fillRect(10, 0, 5, 5, BLACK);
    canvas.fillRect(3, 0, -2, 5, BLACK);
    expect(area(canvas)).toBe(4);
  });

  test("stroke inside the rectangle", () => {
    const canvas = blank(6, 6);
    canvas.strokeRect(1, 1, 4, 4, BLACK);
    expect(area(canvas)).toBe(12);
    expect(inkBox(canvas)).toEqual({ left: 1, top: 1, right: 5, bottom: 5 });
    canvas.strokeRect(1, 1, 4, 4, BLACK, 9);
    expect(area(canvas)).toBe(16);
  });
});

describe("disc and ring", () => {
  test.each([1, 2.5, 7, 15])("a disc of radius %f has the area of a circle and its symmetry", (radius) => {
    const canvas = blank();
    canvas.disc(20, 20, radius, BLACK);
    expect(area(canvas) / (Math.PI * radius * radius)).toBeCloseTo(1, radius < 2 ? 0 : 1);
    const rows = ink(canvas);
    expect(rows.toReversed()).toEqual(rows);
    expect(rows.map((row) => row.toReversed())).toEqual(rows);
    expect(rows[0]!.map((_, x) => rows.map((row) => row[x]!))).toEqual(rows);
  });

  test("a disc is solid inside and untouched outside", () => {
    const canvas = blank();
    canvas.disc(20.3, 19.6, 10, BLACK);
    ink(canvas).forEach((row, y) => {
      row.forEach((value, x) => {
        const distance = Math.hypot(x + 0.5 - 20.3, y + 0.5 - 19.6);
        if (distance < 9.5) expect(value).toBe(255);
        if (distance > 10.5) expect(value).toBe(0);
      });
    });
  });

  test("a ring runs along its radius, half its thickness on either side", () => {
    const canvas = blank();
    canvas.ring(20.5, 20.5, 12, 3, BLACK);
    expect(area(canvas)).toBeCloseTo(Math.PI * (13.5 ** 2 - 10.5 ** 2), -1);
    expect(ink(canvas)[20]!.slice(0, 20)).toEqual([...Array(7).fill(0), ...Array(3).fill(255), ...Array(10).fill(0)]);
  });

  test("shapes that hang over the edge are clipped", () => {
    const canvas = blank(10, 10);
    canvas.disc(0, 0, 5, BLACK);
    canvas.ring(10, 10, 4, 2, BLACK);
    canvas.disc(-50, 5, 10, BLACK);
    const whole = blank(30, 30);
    whole.disc(10, 10, 5, BLACK);
    whole.ring(20, 20, 4, 2, BLACK);
    expect(ink(canvas)).toEqual(
      ink(whole)
        .slice(10, 20)
        .map((row) => row.slice(10, 20)),
    );
  });
});

describe("line", () => {
  test("fills whole pixels when it runs along them, and shares them when it runs between", () => {
    const canvas = blank(5, 3);
    canvas.line(1, 1.5, 4, 1.5, BLACK);
    expect(ink(canvas)).toEqual([Array(5).fill(0), [0, 255, 255, 255, 0], Array(5).fill(0)]);
    const between = blank(5, 3);
    between.line(1, 1, 4, 1, BLACK);
    expect(ink(between).map((row) => row[2])).toEqual([128, 128, 0]);
  });

  test.each([
    ["butt", 0],
    ["square", 4],
    ["round", Math.PI],
  ] as const)("a %s cap adds its area beyond both ends, at any angle", (cap, ends) => {
    for (let degrees = 0; degrees < 360; degrees += 15) {
      const angle = (degrees * Math.PI) / 180;
      const canvas = blank(60, 60);
      const [dx, dy] = [10 * Math.cos(angle), 10 * Math.sin(angle)];
      canvas.line(30 - dx, 30 - dy, 30 + dx, 30 + dy, BLACK, { width: 8, cap });
      const expected = 20 * 8 + ends * 16;
      expect(Math.abs(area(canvas) - expected)).toBeLessThan(0.02 * expected);
    }
  });

  test("a point is a disc under a round cap and nothing under a butt cap", () => {
    const [line, disc, none] = [blank(), blank(), blank()];
    line.line(20, 20, 20, 20, BLACK, { width: 10, cap: "round" });
    disc.disc(20, 20, 5, BLACK);
    expect(line.data).toEqual(disc.data);
    none.line(20, 20, 20, 20, BLACK, { width: 10 });
    expect(area(none)).toBe(0);
  });

  test("dashes alternate strokes and gaps from the start", () => {
    const canvas = blank(12, 1);
    canvas.line(0, 0.5, 12, 0.5, BLACK, { dash: [3, 2] });
    expect(ink(canvas)[0]).toEqual([255, 255, 255, 0, 0, 255, 255, 255, 0, 0, 255, 255]);
  });

  test("draws nothing outside its clip and the same as without inside", () => {
    const [clipped, whole] = [blank(), blank()];
    const clip = { x: 10, y: 5, width: 12, height: 20 };
    clipped.line(-5, -3, 45, 38, BLACK, { width: 7, clip });
    whole.line(-5, -3, 45, 38, BLACK, { width: 7 });
    const expected = ink(whole).map((row, y) =>
      row.map((value, x) => (x >= 10 && x < 22 && y >= 5 && y < 25 ? value : 0)),
    );
    expect(ink(clipped)).toEqual(expected);
    expect(area(clipped)).toBeGreaterThan(20);
  });
});

describe("polygon", () => {
  const box = (left: number, top: number, right: number, bottom: number): Point[] => [
    [left, top],
    [right, top],
    [right, bottom],
    [left, bottom],
  ];

  test("covers exactly the area of its pixels, whichever way round it runs", () => {
    const canvas = blank(4, 3);
    canvas.polygon(box(0.5, 0.75, 3.2, 2), BLACK);
    expect(ink(canvas)).toEqual([
      [32, 64, 64, 13],
      [128, 255, 255, 51],
      [0, 0, 0, 0],
    ]);
    const reversed = blank(4, 3);
    reversed.polygon(box(0.5, 0.75, 3.2, 2).toReversed(), BLACK);
    expect(reversed.data).toEqual(canvas.data);
  });

  test("has the area of a triangle", () => {
    const canvas = blank();
    canvas.polygon([[3.3, 2.1], [37.8, 11.4], [12.6, 36.9]], BLACK); // biome-ignore format: one shape
    const expected = Math.abs((37.8 - 3.3) * (36.9 - 2.1) - (12.6 - 3.3) * (11.4 - 2.1)) / 2;
    expect(area(canvas)).toBeCloseTo(expected, 0);
  });

  test("leaves the notch of a concave shape empty", () => {
    const canvas = blank(8, 8);
    canvas.polygon([[0, 0], [8, 0], [8, 8], [5, 8], [5, 3], [3, 3], [3, 8], [0, 8]], BLACK); // biome-ignore format: one shape
    expect(area(canvas)).toBe(54);
    expect(ink(canvas)[6]).toEqual([255, 255, 255, 0, 0, 255, 255, 255]);
  });

  test("shows the same pixels when most of it lies outside", () => {
    const points: Point[] = [[-70, -20], [55, 3], [90, 70], [-4, 31]]; // biome-ignore format: one shape
    const [small, large] = [blank(20, 20), blank(200, 120)];
    small.polygon(points, BLACK);
    large.polygon(
      points.map(([x, y]): Point => [x + 90, y + 40]),
      BLACK,
    );
    expect(ink(small)).toEqual(
      ink(large)
        .slice(40, 60)
        .map((row) => row.slice(90, 110)),
    );
    const outside = blank(20, 20);
    outside.polygon(box(-30, -30, -2, 50), BLACK);
    outside.polygon(box(25, -30, 40, 50), BLACK);
    expect(area(outside)).toBe(0);
  });

  test("draws nothing for fewer than three points", () => {
    const canvas = blank();
    canvas.polygon([], BLACK);
    canvas.polygon([[1, 1]], BLACK);
    canvas.polygon([[1, 1], [30, 17]], BLACK); // biome-ignore format: one shape
    expect(area(canvas)).toBe(0);
  });
});

describe("text", () => {
  const sizes = [8, 9, 11, 12, 16, 20, 32];

  test.each(sizes)("fills the box that measure names at size %i", (size) => {
    for (const value of ["HELLO", "0123456789", "E", "BOX 42"]) {
      const canvas = blank(400, 60);
      canvas.text(value, 10, 12, { size, color: BLACK });
      const { width, height } = Canvas.measure(value, size);
      const box = inkBox(canvas);
      for (const [actual, expected] of [
        [box.left, 10],
        [box.top, 12],
        [box.right, 10 + width],
        [box.bottom, 12 + height],
      ] as const) {
        expect(Math.abs(actual - expected)).toBeLessThanOrEqual(1);
      }
    }
  });

  test.each(sizes)("keeps every two characters apart at size %i", (size) => {
    const seen = new Map<string, string>();
    for (let code = 32; code < 127; code++) {
      const character = String.fromCharCode(code);
      const canvas = blank(60, 60);
      canvas.text(character, 10, 15, { size, color: BLACK });
      if (character !== " ") expect(area(canvas)).toBeGreaterThan(0);
      const { hash } = canvas.toImage();
      expect(seen.get(hash)).toBeUndefined();
      seen.set(hash, character);
    }
  });

  test("stems are crisp at small sizes: an H has only full or empty pixels", () => {
    for (const size of [8, 9]) {
      const canvas = blank(20, 20);
      canvas.text("H", 3, 3, { size, color: BLACK });
      expect(new Set(ink(canvas).flat())).toEqual(new Set([0, 255]));
    }
  });

  test("aligns by its box", () => {
    const { width, height } = Canvas.measure("H8", 16);
    const at = (x: number, y: number, options: object) => {
      const canvas = blank(80, 80);
      canvas.text("H8", x, y, { size: 16, color: BLACK, ...options });
      return canvas.data;
    };
    const expected = at(20, 30, {});
    expect(at(20 + width / 2, 30 + height / 2, { align: "center", baseline: "middle" })).toEqual(expected);
    expect(at(20 + width, 30 + height, { align: "right", baseline: "bottom" })).toEqual(expected);
  });

  test("grows heavier with weight", () => {
    const [regular, bold] = [blank(), blank()];
    regular.text("R", 10, 10, { size: 16, color: BLACK });
    bold.text("R", 10, 10, { size: 16, color: BLACK, weight: 1.6 });
    expect(area(bold)).toBeGreaterThan(area(regular) * 1.3);
  });

  test("is clipped at the edges and shows a box for what the font lacks", () => {
    const canvas = blank(10, 8);
    canvas.text("WWWWW", -6, -3, { size: 16, color: BLACK });
    expect(area(canvas)).toBeGreaterThan(0);
    const [unknown, other] = [blank(), blank()];
    unknown.text("é", 5, 5, { size: 12, color: BLACK });
    other.text("漢", 5, 5, { size: 12, color: BLACK });
    expect(area(unknown)).toBeGreaterThan(0);
    expect(unknown.data).toEqual(other.data);
  });

  test("an empty string measures nothing wide and draws nothing", () => {
    const canvas = blank();
    canvas.text("", 5, 5, { size: 12, color: BLACK });
    expect(area(canvas)).toBe(0);
    expect(Canvas.measure("", 12).width).toBe(0);
  });
});

describe("draw", () => {
  test("copies an image and clips it on every side", () => {
    const tile = new Canvas(3, 3, RED);
    tile.fillRect(1, 1, 1, 1, BLACK);
    for (const [x, y] of [
      [-1, -1],
      [2, 2],
      [-5, 0],
      [0, 9],
      [1, 0],
    ] as const) {
      const canvas = blank(4, 4);
      canvas.draw(tile.toImage(), x, y);
      const expected = blank(4, 4);
      expected.fillRect(x, y, 3, 3, RED);
      expected.fillRect(x + 1, y + 1, 1, 1, BLACK);
      expect(canvas.data).toEqual(expected.data);
    }
  });
});
