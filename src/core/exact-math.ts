/**
 * Sines, angles and powers that have the same bits on every machine. JavaScript leaves the last bits of Math.sin, Math.exp
 * and their kin to the engine; sums, products, quotients and square roots are exact everywhere, and these are made of
 * nothing else. Accurate to about 2e-15 for arguments of ordinary size (angles up to a million turns).
 */

/** π/2 in two parts: the first has 33 bits, so that its product with a whole number of quarter turns is exact. */
const QUARTER_HIGH = 1.5707963267341256;
const QUARTER_LOW = 6.077100506506192e-11;
const LN2_HIGH = 0.6931471803691238;
const LN2_LOW = 1.9082149292705877e-10;

/** Taylor coefficients: 1/3!, 1/5!, … with alternating signs, highest power first; the same for the cosine. */
const SINE = series(17, 3);
const COSINE = series(18, 2);

function series(from: number, to: number): readonly number[] {
  const coefficients: number[] = [];
  for (let power = from; power >= to; power -= 2) {
    let factorial = 1;
    for (let k = 2; k <= power; k++) factorial *= k;
    coefficients.push((Math.floor(power / 2) % 2 === 0 ? 1 : -1) / factorial);
  }
  return coefficients;
}

function horner(coefficients: readonly number[], x: number): number {
  let sum = 0;
  for (const coefficient of coefficients) sum = sum * x + coefficient;
  return sum;
}

function sine(r: number): number {
  const square = r * r;
  return r + r * square * horner(SINE, square);
}

function cosine(r: number): number {
  const square = r * r;
  return 1 + square * horner(COSINE, square);
}

/** Sine of `x` radians plus that many quarter turns. */
function turned(x: number, shift: number): number {
  const quarters = Math.round(x / (QUARTER_HIGH + QUARTER_LOW));
  const r = x - quarters * QUARTER_HIGH - quarters * QUARTER_LOW;
  const quadrant = (((quarters + shift) % 4) + 4) % 4;
  const value = quadrant % 2 === 0 ? sine(r) : cosine(r);
  return quadrant < 2 ? value : -value;
}

export function sin(radians: number): number {
  return turned(radians, 0);
}

export function cos(radians: number): number {
  return turned(radians, 1);
}

export function tan(radians: number): number {
  return turned(radians, 0) / turned(radians, 1);
}

/** The angle of the vector (x, y), from -π to π. */
export function atan2(y: number, x: number): number {
  const [ax, ay] = [Math.abs(x), Math.abs(y)];
  if (ax === 0 && ay === 0) return 0;
  const steep = ay > ax;
  // Halving the angle twice leaves at most π/16, where the series ends soon.
  let t = steep ? ax / ay : ay / ax;
  for (let halving = 0; halving < 2; halving++) t = t / (1 + Math.sqrt(1 + t * t));
  const square = t * t;
  let sum = 0;
  for (let power = 23; power >= 1; power -= 2) sum = sum * square + ((power - 1) % 4 === 0 ? 1 : -1) / power;
  let angle = 4 * t * sum;
  if (steep) angle = QUARTER_HIGH - angle + QUARTER_LOW;
  if (x < 0) angle = Math.PI - angle;
  return y < 0 ? -angle : angle;
}

export function acos(x: number): number {
  return atan2(Math.sqrt(Math.max(0, (1 - x) * (1 + x))), x);
}

export function asin(x: number): number {
  return atan2(x, Math.sqrt(Math.max(0, (1 - x) * (1 + x))));
}

export function hypot(x: number, y: number, z = 0): number {
  return Math.sqrt(x * x + y * y + z * z);
}

export function exp(x: number): number {
  if (x < -700) return 0;
  const doublings = Math.round(x / (LN2_HIGH + LN2_LOW));
  const r = x - doublings * LN2_HIGH - doublings * LN2_LOW;
  let sum = 1;
  for (let k = 15; k >= 1; k--) sum = 1 + (sum * r) / k;
  const factor = doublings < 0 ? 0.5 : 2;
  for (let k = Math.abs(doublings); k > 0; k--) sum *= factor;
  return sum;
}

/** Natural logarithm of a positive number. */
export function log(x: number): number {
  let [mantissa, doublings] = [x, 0];
  for (; mantissa > 1.5; doublings++) mantissa /= 2;
  for (; mantissa < 0.75; doublings--) mantissa *= 2;
  const t = (mantissa - 1) / (mantissa + 1);
  const square = t * t;
  let sum = 0;
  for (let power = 27; power >= 1; power -= 2) sum = sum * square + 1 / power;
  return doublings * LN2_HIGH + (2 * t * sum + doublings * LN2_LOW);
}

export function pow(base: number, exponent: number): number {
  return base === 0 ? (exponent === 0 ? 1 : 0) : exp(exponent * log(base));
}
