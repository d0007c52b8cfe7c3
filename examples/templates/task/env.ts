/** Rows of data and a function that grades replies: which shape is in the image? Put your own rows and images here. */
import { Canvas, defineTask, type Image, image, NumpyRandom, text, user } from "saccade";

const SHAPES = ["disc", "square", "bar", "cross"] as const;
type Row = { shape: (typeof SHAPES)[number]; x: number; y: number; size: number };

// Your rows may also be in a file: data: "rows.jsonl", or Parquet.
const random = new NumpyRandom(7);
const rows: Row[] = Array.from({ length: 4000 }, () => ({
  shape: SHAPES[random.integers(0, SHAPES.length)] as Row["shape"],
  x: random.integers(20, 44),
  y: random.integers(20, 44),
  size: random.integers(8, 16),
}));

function draw({ shape, x, y, size }: Row): Image {
  const canvas = new Canvas(64, 64);
  const rectangle = (width: number, height: number) =>
    canvas.fillRect(x - width / 2, y - height / 2, width, height, [30, 120, 90]);
  if (shape === "disc") canvas.disc(x, y, size, [30, 120, 90]);
  if (shape === "square") rectangle(2 * size, 2 * size);
  if (shape === "bar" || shape === "cross") rectangle(2 * size, 6);
  if (shape === "cross") rectangle(6, 2 * size);
  return canvas.toImage();
}

export default defineTask<Row>({
  id: "my-task",
  data: rows,
  prompt: (row) => [user(image(draw(row)), text(`Which shape? ${SHAPES.join(", ")}`))],
  // One number ends the episode. For several turns return { rewards, say, done }.
  reward: (reply, { shape }) => (reply.trim() === shape ? 1 : 0),
  // The right answer, for demonstrations, a warm start and a ceiling. Leave it out if there is none.
  answer: ({ shape }) => shape,
});
