/** Smallest and largest of any number of numbers: arguments of `Math.min` stand on the stack, and about 120,000 of them overflow it. */
export function rangeOf(numbers: Iterable<number>): { readonly min: number; readonly max: number } {
  let [min, max] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const number of numbers) {
    min = Math.min(min, number);
    max = Math.max(max, number);
  }
  return { min, max };
}
