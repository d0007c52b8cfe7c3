/** A ball falls into one of four columns, one row a turn; the paddle must be under it when it lands. Make this world your own. */
import { act, bare, Canvas, defineWorld, NumpyRandom } from "saccade";

const [COLUMNS, ROWS, CELL] = [4, 3, 16];

export default defineWorld({
  id: "my-world",
  maxTurns: ROWS,
  create() {
    let [ball, paddle, row] = [0, 0, 0];
    const caught = () => row === ROWS && paddle === ball;
    return {
      // What a model can do. Each name is a word that it may say.
      actions: [bare("left", "one column left"), bare("right", "one column right"), bare("stay", "do not move")],
      // The seed decides the whole episode.
      reset(seed) {
        const random = new NumpyRandom(seed);
        [ball, paddle, row] = [random.integers(0, COLUMNS), random.integers(0, COLUMNS), 0];
      },
      act({ name }) {
        const move = name === "right" ? 1 : name === "left" ? -1 : 0;
        paddle = Math.min(COLUMNS - 1, Math.max(0, paddle + move));
        row += 1;
        return { valid: true, ended: row === ROWS, reward: caught() ? 1 : 0 };
      },
      // What the model sees now. Keep frames small: 32×32 pixels are one token.
      observe() {
        const canvas = new Canvas(COLUMNS * CELL, (ROWS + 1) * CELL);
        canvas.disc(ball * CELL + CELL / 2, row * CELL + CELL / 2, 6, [220, 60, 40]);
        canvas.fillRect(paddle * CELL, (ROWS + 1) * CELL - 6, CELL, 6, [40, 80, 200]);
        return canvas.toImage();
      },
      task: () => "A red ball falls one row a turn. Be under it with the blue paddle when it lands.",
      success: caught,
      // The oracle: it gives you demonstrations, a warm start and a ceiling. Leave it out if you have none.
      solve: () => [act(ball === paddle ? "stay" : ball > paddle ? "right" : "left")],
      // The exact state, so that the viewer can replay from any turn.
      save: () => ({ ball, paddle, row }),
      load(state) {
        ({ ball, paddle, row } = state as { ball: number; paddle: number; row: number });
      },
    };
  },
});
