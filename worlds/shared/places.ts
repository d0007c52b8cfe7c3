/** Where a thing lies, seen from another: so many rows down and columns to the right. */
export function placeWords(down: number, right: number): string[] {
  return [
    down === 0 ? "same row" : down < 0 ? "above" : "below",
    right === 0 ? "same column" : right < 0 ? "left" : "right",
  ];
}
