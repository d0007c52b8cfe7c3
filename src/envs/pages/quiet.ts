/**
 * The script that runs in every frame before the page's own: it makes a page a function of its seed and of what is done to it. Time
 * stands still between actions and moves only when the world says so, so timers, animation frames and dates are exact; random numbers
 * come from the seed; transitions and the caret are switched off; windows, dialogs and `window.close` do nothing. Drop-down lists, which
 * a browser draws outside the page and no screenshot shows, are drawn inside it. It is text, because it runs in the browser.
 */

/** What the page's clock says at the start of every episode: a Monday morning. */
const START_OF_TIME = Date.UTC(2026, 0, 5, 9, 0, 0);

const SCRIPT = String.raw`
  if (globalThis.__saccade) return;
  const root = globalThis;
  const fix = (object, name, value) => {
    try { Object.defineProperty(object, name, { value, writable: true, configurable: true, enumerable: false }); } catch {}
  };

  // Random numbers: sfc32, warmed up.
  let a, b, c, d;
  const next = () => {
    const t = (((a + b) | 0) + d) | 0;
    d = (d + 1) | 0; a = b ^ (b >>> 9); b = (c + (c << 3)) | 0; c = ((c << 21) | (c >>> 11)) + t | 0;
    return t >>> 0;
  };
  const sow = (low, high) => {
    [a, b, c, d] = [low, high, 0x9e3779b9, 1];
    for (let i = 0; i < 12; i++) next();
  };
  sow(seedLow, seedHigh);
  fix(Math, "random", () => (next() * 2097152 + (next() >>> 11)) / 9007199254740992);
  if (root.crypto) {
    const fill = (array) => {
      const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
      for (let i = 0; i < bytes.length; i++) bytes[i] = next() & 255;
      return array;
    };
    fix(root.crypto, "getRandomValues", fill);
    fix(root.crypto, "randomUUID", () => {
      const h = [...fill(new Uint8Array(16))].map((x, i) => (i === 6 ? (x & 15) | 64 : i === 8 ? (x & 63) | 128 : x).toString(16).padStart(2, "0")).join("");
      return h.slice(0, 8) + "-" + h.slice(8, 12) + "-" + h.slice(12, 16) + "-" + h.slice(16, 20) + "-" + h.slice(20);
    });
  }

  // Time: it moves in advance() alone.
  let now = 0, ids = 0, order = 0;
  const timers = new Map();
  const realTimeout = root.setTimeout.bind(root);
  const realFrame = root.requestAnimationFrame.bind(root);
  const channel = new MessageChannel();
  let wake = [];
  channel.port1.onmessage = () => { const all = wake; wake = []; for (const go of all) go(); };
  const turn = () => new Promise((go) => { wake.push(go); channel.port2.postMessage(0); });
  const add = (at, run, args, every) => {
    const id = ++ids;
    timers.set(id, { id, at, run, args, every, order: ++order });
    return id;
  };
  const callable = (run) => (typeof run === "function" ? run : () => (0, eval)(String(run)));
  const delay = (ms) => Math.max(0, Number(ms) || 0);
  fix(root, "setTimeout", (run, ms, ...args) => add(now + delay(ms), callable(run), args));
  fix(root, "setInterval", (run, ms, ...args) => add(now + Math.max(1, delay(ms)), callable(run), args, Math.max(1, delay(ms))));
  fix(root, "requestAnimationFrame", (run) => add((Math.floor(now / 16) + 1) * 16, () => run(now), []));
  fix(root, "requestIdleCallback", (run) => add(now + 1, () => run({ didTimeout: false, timeRemaining: () => 10 }), []));
  const cancel = (id) => { timers.delete(Number(id)); };
  for (const name of ["clearTimeout", "clearInterval", "cancelAnimationFrame", "cancelIdleCallback"]) fix(root, name, cancel);
  const RealDate = Date;
  const wall = () => start + Math.floor(now);
  const FixedDate = function Date(...args) {
    if (!new.target) return new RealDate(wall()).toString();
    return Reflect.construct(RealDate, args.length === 0 ? [wall()] : args, new.target);
  };
  FixedDate.prototype = RealDate.prototype;
  Object.setPrototypeOf(FixedDate, RealDate);
  fix(FixedDate, "now", wall);
  fix(RealDate.prototype, "constructor", FixedDate);
  fix(root, "Date", FixedDate);
  fix(Performance.prototype, "now", () => now);
  try { Object.defineProperty(Event.prototype, "timeStamp", { get: () => now, configurable: true }); } catch {}
  const MAX_TIMERS = 20000;
  async function advance(ms) {
    const target = now + ms;
    for (let fired = 0; fired < MAX_TIMERS; fired++) {
      let first;
      for (const timer of timers.values()) {
        if (timer.at <= target && (first === undefined || timer.at < first.at || (timer.at === first.at && timer.order < first.order))) first = timer;
      }
      if (first === undefined) break;
      now = Math.max(now, first.at);
      if (first.every === undefined) timers.delete(first.id);
      else { first.at = now + first.every; first.order = ++order; }
      try { first.run.apply(root, first.args); } catch (error) { console.error(error); }
      await turn();
    }
    now = target;
    await turn();
  }

  /** Until what the page shows was asked for once: styles name images that are loaded when they are first drawn. */
  function painted() {
    const drawn = new Promise((go) => { realFrame(() => realFrame(go)); realTimeout(go, 500); });
    return drawn.then(() => Promise.all([document.fonts?.ready, ...[...document.images].map((image) => image.decode().catch(() => undefined))]).then(() => undefined));
  }

  // Nothing moves by itself.
  const calm = new CSSStyleSheet();
  calm.replaceSync("*,*::before,*::after{animation-duration:0s!important;animation-delay:0s!important;transition-duration:0s!important;transition-delay:0s!important;caret-color:transparent!important;scroll-behavior:auto!important}");
  document.adoptedStyleSheets = [calm];
  const animate = Element.prototype.animate;
  fix(Element.prototype, "animate", function (...args) { const made = animate.apply(this, args); try { made.finish(); } catch {} return made; });

  // No windows, no dialogs, no way round the network.
  fix(root, "open", () => null);
  for (const name of ["close", "alert", "print", "stop", "moveTo", "resizeTo"]) fix(root, name, () => undefined);
  fix(root, "confirm", () => true);
  fix(root, "prompt", () => null);
  for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection", "WebTransport", "SharedWorker", "showOpenFilePicker", "showSaveFilePicker", "showDirectoryPicker"]) {
    try { delete root[name]; } catch {}
  }

  // Drop-down lists inside the page.
  let list;
  const shut = () => { list?.remove(); list = undefined; };
  const choose = (select, index) => {
    shut();
    if (select.selectedIndex === index) return;
    select.selectedIndex = index;
    select.dispatchEvent(new Event("input", { bubbles: true }));
    select.dispatchEvent(new Event("change", { bubbles: true }));
  };
  const unfold = (select) => {
    shut();
    const box = select.getBoundingClientRect();
    const style = getComputedStyle(select);
    list = document.createElement("div");
    list.setAttribute("role", "listbox");
    const below = innerHeight - box.bottom, room = Math.max(below, box.top) - 2;
    list.style.cssText = "position:fixed;z-index:2147483647;box-sizing:border-box;overflow:auto;border:1px solid #888;background:#fff;color:#111;cursor:default;margin:0;padding:0;text-align:left;" +
      "left:" + box.left + "px;min-width:" + box.width + "px;max-height:" + room + "px;font:" + style.font + ";" +
      (below >= Math.min(room, 120) ? "top:" + box.bottom + "px" : "bottom:" + (innerHeight - box.top) + "px");
    [...select.options].forEach((option, index) => {
      const row = document.createElement("div");
      row.setAttribute("role", "option");
      row.textContent = option.label || option.text;
      row.style.cssText = "padding:2px 6px;white-space:nowrap;line-height:1.3;" + (index === select.selectedIndex ? "background:#1a66d6;color:#fff" : option.disabled ? "color:#999" : "");
      if (!option.disabled) row.addEventListener("click", (event) => { event.stopPropagation(); choose(select, index); });
      list.append(row);
    });
    document.body.append(list);
  };
  root.addEventListener("mousedown", (event) => {
    if (!event.isTrusted) return;
    const on = event.target;
    if (list?.contains(on)) return;
    const select = on instanceof Element ? on.closest("select") : null;
    if (select && !select.disabled && !select.multiple && select.size <= 1) {
      event.preventDefault();
      select.focus();
      list ? shut() : unfold(select);
    } else shut();
  }, true);

  root.addEventListener("keydown", (event) => { if (event.key === "Escape" || event.key === "Enter" || event.key === "Tab") shut(); }, true);

  // What the world asks for.
  const words = (text) => (text ?? "").replace(/\s+/g, " ").trim().slice(0, 80);
  const ROLES = { A: "link", BUTTON: "button", SELECT: "combobox", TEXTAREA: "textbox", IMG: "img", H1: "heading", H2: "heading", H3: "heading", H4: "heading", OPTION: "option", CANVAS: "canvas", LABEL: "label", LI: "listitem", TD: "cell", TH: "columnheader", SUMMARY: "button" };
  const INPUTS = { checkbox: "checkbox", radio: "radio", range: "slider", button: "button", submit: "button", reset: "button", number: "spinbutton" };
  const roleOf = (element) => element.getAttribute("role") || (element.tagName === "INPUT" ? INPUTS[element.type] || "textbox" : ROLES[element.tagName?.toUpperCase()]);
  const nameOf = (element) =>
    words(element.getAttribute("aria-label")) || words(element.labels?.[0]?.textContent) || words(element.getAttribute("alt")) || words(element.getAttribute("title")) ||
    words(element.getAttribute("placeholder")) || (element.tagName === "SELECT" ? "" : words(element.tagName === "INPUT" && /button|submit|reset/.test(element.type) ? element.value : element.innerText ?? element.textContent));
  const ACTS = new Set(["link", "button", "combobox", "textbox", "checkbox", "radio", "slider", "spinbutton", "option", "menuitem", "menuitemcheckbox", "menuitemradio", "tab", "switch", "gridcell", "canvas", "treeitem"]);
  const boxOf = (element) => { const { x, y, width, height } = element.getBoundingClientRect(); return { x, y, width, height }; };
  const shown = (element, box) => box.width > 0 && box.height > 0 && box.x < innerWidth && box.y < innerHeight && box.x + box.width > 0 && box.y + box.height > 0 &&
    (!element.checkVisibility || element.checkVisibility({ opacityProperty: true, visibilityProperty: true }));
  const stateOf = (element) => {
    const states = [];
    if (element.checked || element.getAttribute("aria-checked") === "true") states.push("checked");
    if (element.getAttribute("aria-selected") === "true") states.push("selected");
    if (element.getAttribute("aria-expanded") === "true") states.push("expanded");
    if (element.disabled) states.push("disabled");
    if (element === document.activeElement && element !== document.body) states.push("focused");
    return states;
  };
  function tree() {
    const rows = [];
    const visit = (element, depth) => {
      if (!(element instanceof Element) || /^(SCRIPT|STYLE|TEMPLATE|NOSCRIPT|HEAD)$/.test(element.tagName)) return;
      const box = boxOf(element);
      if (element !== document.body && getComputedStyle(element).display === "none") return;
      const role = roleOf(element);
      const own = [...element.childNodes].some((node) => node.nodeType === 3 && words(node.data) !== "");
      let inside = depth;
      if ((role || own) && shown(element, box)) {
        const acts = ACTS.has(role) || element.draggable;
        const value = element.tagName === "SELECT" ? words(element.selectedOptions[0]?.text) : "value" in element && /textbox|slider|spinbutton/.test(role) ? words(element.type === "password" ? "•".repeat(element.value.length) : String(element.value)) : undefined;
        rows.push({ depth, role: role ?? "text", name: nameOf(element), acts, box, states: stateOf(element), ...(value === undefined ? {} : { value }) });
        inside = depth + 1;
        if (acts && role !== "option" && role !== "gridcell" && element.children.length === 0) return;
        if (acts || !role) { if (![...element.querySelectorAll("*")].some((child) => roleOf(child))) return; }
      }
      for (const child of element.children) visit(child, inside);
    };
    if (document.body) visit(document.body, 0);
    return rows;
  }
  function hit(x, y) {
    let on = document.elementFromPoint(x, y);
    while (on && on !== document.body && !roleOf(on) && on.parentElement && !on.onclick && words(on.textContent) === "") on = on.parentElement;
    if (!on || on === document.documentElement) return null;
    const named = on.closest("a,button,select,textarea,input,label,[role],[draggable=true]") ?? on;
    return { element: roleOf(named) ?? named.tagName.toLowerCase(), name: named === document.body ? "" : nameOf(named), box: boxOf(named) };
  }
  function scroll(x, y, dx, dy) {
    const on = document.elementFromPoint(x, y) ?? document.documentElement;
    if (!on.dispatchEvent(new WheelEvent("wheel", { deltaX: dx, deltaY: dy, clientX: x, clientY: y, bubbles: true, cancelable: true }))) return;
    for (let at = on; at; at = at.parentElement) {
      if (at !== document.scrollingElement && !/auto|scroll/.test(getComputedStyle(at).overflow)) continue;
      const [left, top] = [at.scrollLeft, at.scrollTop];
      at.scrollBy({ left: dx, top: dy, behavior: "instant" });
      if (at.scrollLeft !== left || at.scrollTop !== top) return;
    }
  }
  /** Another episode in the same document: as far as it is this script's business, everything is as it was after loading. */
  function restart(low, high) {
    shut();
    timers.clear();
    now = 0;
    sow(low, high);
    document.activeElement?.blur?.();
    root.getSelection?.()?.removeAllRanges();
    root.scrollTo(0, 0);
    return true;
  }
  Object.defineProperty(root, "__saccade", {
    value: Object.freeze({ born: performance.timeOrigin, advance, painted, restart, tree, hit, scroll, box: boxOf, text: () => String(root.getSelection?.() || "") || (() => { const on = document.activeElement; return on && "selectionStart" in on && on.selectionStart !== null ? on.value.slice(on.selectionStart, on.selectionEnd) : ""; })() }),
  });
`;

/** A seed as the two words that the random numbers begin with. */
export function seedWords(seed: number): [low: number, high: number] {
  return [(seed % 0x1_0000_0000) | 0, Math.floor(seed / 0x1_0000_0000) | 0];
}

/** The script for an episode. */
export function quietScript(seed: number): string {
  const [low, high] = seedWords(seed);
  return `((seedLow, seedHigh, start) => {${SCRIPT}})(${low}, ${high}, ${START_OF_TIME});`;
}
