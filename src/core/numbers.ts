/** Sums over many numbers, and things grouped by a key. */

/** Smallest and largest of any number of numbers: arguments of `Math.min` stand on the stack, and about 120,000 of them overflow it. */
export function rangeOf(numbers: Iterable<number>): { readonly min: number; readonly max: number } {
  let [min, max] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const number of numbers) {
    min = Math.min(min, number);
    max = Math.max(max, number);
  }
  return { min, max };
}

export function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

/** 0 where there is none. */
export function mean(numbers: readonly number[]): number {
  return numbers.length === 0 ? 0 : sum(numbers) / numbers.length;
}

export function grouped<T, K>(items: readonly T[], key: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const item of items) {
    const members = groups.get(key(item));
    if (members === undefined) groups.set(key(item), [item]);
    else members.push(item);
  }
  return groups;
}
