/**
 * What the eight pages share: random numbers from the seed, themes, elements, icons, and `world`, by which Saccade starts a page, asks
 * for its goal, judges it and finds out what to do next. A page gives its goal, the parts that count, and a plan.
 */

globalThis.kit = (() => {
  function random(seed) {
    let state = (seed ^ 0x5ac0ade) >>> 0 || 1;
    const high = Math.floor(seed / 4294967296) >>> 0;
    state = (state + Math.imul(high, 0x9e3779b1)) >>> 0;
    const next = () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let t = Math.imul(state ^ (state >>> 15), state | 1);
      t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
    const int = (low, high) => low + Math.floor(next() * (high - low + 1));
    const pick = (list) => list[int(0, list.length - 1)];
    const shuffle = (list) => {
      const out = [...list];
      for (let i = out.length - 1; i > 0; i--) {
        const j = int(0, i);
        [out[i], out[j]] = [out[j], out[i]];
      }
      return out;
    };
    return { next, int, pick, shuffle, some: (list, n) => shuffle(list).slice(0, n), chance: (p) => next() < p };
  }

  const ACCENTS = [
    ["#2563eb", "#1d4ed8", "#dbeafe"],
    ["#0f766e", "#0f766e", "#ccfbf1"],
    ["#7c3aed", "#6d28d9", "#ede9fe"],
    ["#c2410c", "#b03a0a", "#ffedd5"],
    ["#be185d", "#a8144f", "#fce7f3"],
    ["#15803d", "#166534", "#dcfce7"],
  ];
  const DARK_TINTS = ["#1e3358", "#113a37", "#332457", "#4a2412", "#4a1630", "#123d22"];
  const DARK_INKS = ["#93c5fd", "#5eead4", "#c4b5fd", "#fdba74", "#f9a8d4", "#86efac"];
  const FONTS = ["system-ui, sans-serif", "'DejaVu Sans', Verdana, sans-serif", "'Liberation Sans', Arial, sans-serif"];

  /** Colours, corners, spacing and letters from the seed; dark or light as the browser says. */
  function theme(r) {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const which = r.int(0, ACCENTS.length - 1);
    const [accent, ink, tint] = ACCENTS[which];
    const filled = r.chance(0.5);
    const corner = r.pick([2, 5, 8, 14]);
    const set = {
      "--accent": accent,
      "--on-accent": "#ffffff",
      "--accent-ink": dark ? DARK_INKS[which] : ink,
      "--tint": dark ? DARK_TINTS[which] : tint,
      "--bg": dark ? r.pick(["#111418", "#14131a", "#101613"]) : r.pick(["#f5f6f8", "#faf8f5", "#f2f5f9"]),
      "--card": dark ? "#1c2026" : "#ffffff",
      "--field": dark ? "#14171c" : "#ffffff",
      "--ink": dark ? "#eceff3" : "#171a1f",
      "--soft": dark ? "#a4adb9" : "#5c6673",
      "--line": dark ? "#39404a" : "#d5dae1",
      "--bad": dark ? "#fca5a5" : "#b91c1c",
      "--good": dark ? "#86efac" : "#15803d",
      "--bar": filled ? accent : dark ? "#1c2026" : "#ffffff",
      "--on-bar": filled ? "#ffffff" : dark ? "#eceff3" : "#171a1f",
      "--logo": filled ? "#ffffffd0" : accent,
      "--r": `${corner}px`,
      "--r2": `${Math.max(3, corner - 2)}px`,
      "--gap": `${r.pick([7, 8, 9])}px`,
      "--font": r.pick(FONTS),
    };
    for (const [name, value] of Object.entries(set)) document.documentElement.style.setProperty(name, value);
    document.documentElement.style.colorScheme = dark ? "dark" : "light";
    return { dark, accent };
  }

  /** An element: `h("button.main", { onclick }, "Save")`. */
  function h(selector, props = {}, ...children) {
    const [tag, ...classes] = selector.split(".");
    const made = document.createElement(tag);
    if (classes.length > 0) made.className = classes.join(" ");
    for (const [name, value] of Object.entries(props)) {
      if (name === "style") made.style.cssText = value;
      else if (name in made) made[name] = value;
      else made.setAttribute(name, value);
    }
    made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
    return made;
  }

  const SHAPES = {
    mug: "M6 8h14v16a4 4 0 0 1-4 4h-6a4 4 0 0 1-4-4zM20 11h3a4 4 0 0 1 0 11h-3v-3h3a1.500 1.500 0 0 0 0-5h-3z",
    book: "M7 4h17a2 2 0 0 1 2 2v22H9a3 3 0 0 1-3-3V5zM9 24h15v2H9z",
    lamp: "M11 4h10l5 12H6zM15 16h2v9h5v3H10v-3h5z",
    ball: "M16 4a12 12 0 1 1 0 24a12 12 0 0 1 0-24z",
    hat: "M9 8h14v12h7v4H2v-4h7z",
    star: "M16 3l4 9 9 1-7 6 2 10-8-5-8 5 2-10-7-6 9-1z",
    bag: "M6 11h20l2 17H4zM11 11a5 5 0 0 1 10 0h-3a2 2 0 0 0-4 0z",
    key: "M10 4a7 7 0 1 1-1 14l-1 3H5v7h4l8-12a7 7 0 0 0-7-12z",
  };
  const COLORS = {
    red: "#dc2626",
    blue: "#2563eb",
    green: "#16a34a",
    yellow: "#eab308",
    purple: "#9333ea",
    orange: "#f97316",
  };

  function icon(shape, color, size = 32) {
    const holder = document.createElement("span");
    holder.innerHTML = `<svg width="${size}" height="${size}" viewBox="0 0 32 32" aria-hidden="true"><path d="${SHAPES[shape]}" fill="${COLORS[color] ?? color}"/></svg>`;
    return holder.firstElementChild;
  }

  const PEOPLE = [
    "Ada",
    "Ben",
    "Cleo",
    "Dan",
    "Eva",
    "Finn",
    "Gia",
    "Hugo",
    "Iris",
    "Jon",
    "Kim",
    "Lena",
    "Max",
    "Nora",
  ];
  const BRANDS = [
    "Linden",
    "Orbit",
    "Harbor",
    "Maple",
    "Northwind",
    "Pixel & Co",
    "Quay",
    "Tandem",
    "Juniper",
    "Lumen",
  ];
  const FACES = ["#dc2626", "#2563eb", "#16a34a", "#a16207", "#9333ea", "#c2410c", "#0f766e", "#be185d"];
  const face = (name) => h("span.face", { style: `background:${FACES[PEOPLE.indexOf(name) % FACES.length]}` }, name[0]);
  const bar = (r, ...more) => h("header", {}, h("span.logo"), h("b", {}, r.pick(BRANDS)), ...more);

  /** `build(r, hard)` draws the page and returns { goal, parts(), plan() }. */
  function page(build) {
    let made;
    globalThis.world = {
      start(seed, options = {}) {
        const r = random(seed);
        theme(r);
        document.body.replaceChildren();
        made = build(r, options.form === "hard");
      },
      goal: () => made.goal,
      score: () => {
        const parts = made.parts();
        return parts.filter(Boolean).length / parts.length;
      },
      done: () => made.parts().every(Boolean),
      plan: () => made.plan(),
    };
  }

  return { page, h, icon, face, bar, SHAPES: Object.keys(SHAPES), COLORS, PEOPLE, BRANDS };
})();
