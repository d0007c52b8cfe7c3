/** A chart to take away: its numbers as CSV, its image as PNG. Made in the page, so that an exported file can do it, too. */
import type { Line } from "./chart.tsx";

type Row = readonly (number | null | undefined)[];

/** A column for x, then one for each line; a line of one name is there once, as it was drawn first. */
export function csvOf(sayX: (x: number) => string, lines: readonly Line[], data: readonly Row[]): string {
  const xs = data[0] ?? [];
  const columns = lines
    .map(({ label }, i) => ({ label, row: data[i + 1] ?? [] }))
    .filter(({ label }, i) => lines.findIndex((other) => other.label === label) === i);
  const axis = sayX(0).replace(/^[^A-Za-z]*0[^A-Za-z]*|[^A-Za-z]*0[^A-Za-z]*$/g, "") || "x";
  const head = [axis, ...columns.map(({ label }) => cell(label))].join(",");
  const rows = xs.map((x, i) => [x, ...columns.map(({ row }) => row[i] ?? "")].join(","));
  return `${[head, ...rows].join("\n")}\n`;
}

/** Nothing in it starts a formula when a spreadsheet opens it. */
function cell(text: string): string {
  const plain = /^[=+\-@]/.test(text) ? `'${text}` : text;
  return /[",\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
}

/** The plot with its title and legend, on the page's own ground. */
export async function pngOf(
  plot: HTMLCanvasElement,
  title: string,
  legend: readonly { readonly label: string; readonly colour: string }[],
  colour: (name: string) => string,
): Promise<Blob> {
  const ratio = devicePixelRatio;
  const [pad, line] = [12 * ratio, 20 * ratio];
  const canvas = document.createElement("canvas");
  const labels = legend.length > 1 ? legend : [];
  canvas.width = plot.width + 2 * pad;
  canvas.height = plot.height + 2 * pad + line * (labels.length > 0 ? 2 : 1);
  const context = canvas.getContext("2d") as CanvasRenderingContext2D;
  context.fillStyle = colour("--panel");
  context.fillRect(0, 0, canvas.width, canvas.height);
  const font = getComputedStyle(document.body).fontFamily;
  context.fillStyle = colour("--ink");
  context.font = `600 ${14 * ratio}px ${font}`;
  context.fillText(title, pad, pad + 13 * ratio);
  context.font = `${12 * ratio}px ${font}`;
  let x = pad;
  for (const { label, colour: tint } of labels) {
    context.fillStyle = tint;
    context.fillText(label, x, pad + line + 12 * ratio);
    x += context.measureText(label).width + 14 * ratio;
  }
  context.drawImage(plot, pad, canvas.height - plot.height - pad);
  return new Promise((done, fail) =>
    canvas.toBlob((blob) => (blob === null ? fail(new Error("The image is too large.")) : done(blob)), "image/png"),
  );
}

export function download(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  Object.assign(document.createElement("a"), { href: url, download: name }).click();
  // After the browser has taken it.
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export function fileName(title: string, end: string): string {
  return `${title.replace(/[^A-Za-z0-9]+/g, "-").replace(/^-|-$/g, "")}.${end}`;
}
