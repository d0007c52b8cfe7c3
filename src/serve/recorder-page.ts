/** The page on which a person shows how it is done: the frame, large; below it a line for text, and keys. It talks to `recorder.ts` and nobody else. */

export const RECORD_HTML = `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Record</title><link rel="stylesheet" href="record.css">
<header><b id="goal"></b><span id="state"></span></header>
<main><img id="frame" alt="The page" draggable="false"></main>
<form id="text"><input id="words" autocomplete="off" placeholder="Text to type where the cursor is"><button>Type</button></form>
<div id="keys"></div>
<footer><button id="again">Start again</button><button id="keep">Keep this episode</button><span id="note" role="status"></span></footer>
<script src="record.js"></script></html>`;

export const RECORD_CSS = `
:root { color-scheme: light dark; font: 15px system-ui, sans-serif; }
body { margin: 0 auto; max-width: 60rem; padding: 1rem; display: grid; gap: 0.7rem; }
header, footer, form, #keys { display: flex; flex-wrap: wrap; gap: 0.5rem; align-items: baseline; }
header span { margin-left: auto; opacity: 0.7; }
img { display: block; width: 100%; max-height: 70vh; object-fit: contain; object-position: left top; image-rendering: pixelated; cursor: crosshair; user-select: none; }
img.waiting { opacity: 0.6; cursor: progress; }
main { border: 1px solid #8888; border-radius: 6px; overflow: hidden; }
input { flex: 1; font: inherit; padding: 0.3rem 0.5rem; }
button { font: inherit; padding: 0.3rem 0.7rem; }
#keys button { font-size: 0.8rem; padding: 0.15rem 0.5rem; }
#keep { font-weight: 600; }
`;

export const RECORD_JS = `
const $ = (id) => document.getElementById(id);
const frame = $("frame");
let state, waiting = false;
async function show(next) {
  state = next;
  $("goal").textContent = next.goal;
  const how = next.over ? (next.success ? "solved" : "over, not solved") : "";
  $("state").textContent = ["seed " + next.seed, next.turns + (next.turns === 1 ? " action" : " actions"), next.said, how, next.kept + " kept"].filter(Boolean).join(" · ");
  if ($("keys").childElementCount === 0 && next.actions.includes("key")) {
    for (const name of next.keys) { const made = document.createElement("button"); made.textContent = name.replace("_", " "); made.onclick = () => send({ do: "key", text: name }); $("keys").append(made); }
    for (const name of ["wait", "stop"]) if (next.actions.includes(name)) { const made = document.createElement("button"); made.textContent = name; made.onclick = () => send({ do: name }); $("keys").append(made); }
  }
  $("text").hidden = !next.actions.includes("type");
  frame.src = "frame.png?" + next.frame;
  await frame.decode().catch(() => {});
}
async function send(done) {
  if (waiting) return;
  waiting = true; frame.classList.add("waiting"); $("note").textContent = "";
  try {
    const answer = await fetch("act", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(done) });
    const body = await answer.json();
    if (answer.ok) await show(body); else $("note").textContent = body.error;
  } catch { $("note").textContent = "The recorder has ended; you can close this page."; }
  waiting = false; frame.classList.remove("waiting");
}
// The image keeps its shape inside its box, from the upper left corner.
function place(event) {
  const box = frame.getBoundingClientRect();
  const scale = Math.min(box.width / frame.naturalWidth, box.height / frame.naturalHeight);
  return { x: (event.clientX - box.left) / (frame.naturalWidth * scale), y: (event.clientY - box.top) / (frame.naturalHeight * scale) };
}
const inside = ({ x, y }) => x >= 0 && x < 1 && y >= 0 && y < 1;
let from, single;
frame.addEventListener("pointerdown", (event) => { if (event.button === 0) { from = place(event); frame.setPointerCapture(event.pointerId); } });
frame.addEventListener("pointerup", (event) => {
  if (!from || !inside(from)) return;
  const to = place(event), start = from;
  from = undefined;
  const far = Math.hypot((to.x - start.x) * frame.naturalWidth, (to.y - start.y) * frame.naturalHeight) > 5;
  if (far && inside(to) && state.actions.includes("drag")) return send({ do: "drag", ...start, toX: to.x, toY: to.y });
  if (!state.actions.includes("double_click")) return send({ do: "click", ...start });
  // A second click may follow.
  if (single) { clearTimeout(single); single = undefined; return send({ do: "double_click", ...start }); }
  single = setTimeout(() => { single = undefined; send({ do: "click", ...start }); }, 250);
});
frame.addEventListener("wheel", (event) => {
  event.preventDefault();
  const at = place(event);
  if (!inside(at) || !state.actions.includes("scroll")) return;
  const across = Math.abs(event.deltaX) > Math.abs(event.deltaY);
  send({ do: "scroll", ...at, text: across ? (event.deltaX > 0 ? "right" : "left") : event.deltaY > 0 ? "down" : "up" });
}, { passive: false });
$("text").addEventListener("submit", (event) => { event.preventDefault(); const text = $("words").value; $("words").value = ""; if (text !== "") send({ do: "type", text }); });
$("again").onclick = () => send({ do: "again" });
$("keep").onclick = () => send({ do: "keep" });
fetch("state").then((answer) => answer.json()).then(show);
`;
