/** Exact values, as sums of terms p/q · √root · π, in LaTeX and as numbers. */

export type Term = { readonly p: number; readonly q?: number; readonly root?: number; readonly pi?: boolean };
export type Exact = readonly Term[];

export const whole = (p: number): Exact => [{ p }];
export const fraction = (p: number, q: number): Exact => [{ p, q }];
export const root = (n: number): Exact => [{ p: 1, root: n }];

export function amountOf(terms: Exact): number {
  return terms.reduce((sum, { p, q = 1, root: r = 1, pi }) => sum + (p / q) * Math.sqrt(r) * (pi ? Math.PI : 1), 0);
}

/** In lowest terms, squares taken out of roots. */
export function latexOf(terms: Exact): string {
  const written = terms.map(simplest).map(({ p, q, root: r, pi }, i) => {
    const [size, sign] = [Math.abs(p), p < 0 ? "-" : i > 0 ? "+" : ""];
    const tail = `${r > 1 ? `\\sqrt{${r}}` : ""}${pi ? "\\pi" : ""}`;
    const top = size === 1 && tail !== "" ? tail : `${size}${tail}`;
    return `${sign}${q === 1 ? top : `\\frac{${top}}{${q}}`}`;
  });
  return written.join("");
}

function simplest({ p, q = 1, root: r = 1, pi = false }: Term): Required<Term> {
  let [top, radicand] = [p, r];
  for (let square = Math.floor(Math.sqrt(radicand)); square > 1; square--) {
    if (radicand % (square * square) !== 0) continue;
    top *= square;
    radicand /= square * square;
    break;
  }
  const common = gcd(Math.abs(top), q);
  return { p: top / common, q: q / common, root: radicand, pi };
}

function gcd(a: number, b: number): number {
  return b === 0 ? a : gcd(b, a % b);
}
