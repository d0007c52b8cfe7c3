/**
 * What to do next in tasks of MiniWoB++, found through the DOM of the page and its own judge. It runs in the page. `pays` asks the judge
 * what a click would earn without making it, for tasks whose handlers only judge; other tasks are read off the instruction.
 */

globalThis.oracleOf = (task) => {
  const $all = (selector) => [...document.querySelectorAll(selector)];
  const $one = (selector) => document.querySelector(selector);
  const said = () => core.getUtterance?.() ?? document.getElementById("query").textContent;
  const goal = () => (typeof said() === "string" ? said() : (said().utterance ?? "")).replace(/\s+/g, " ").trim();
  const quoted = (n = 0) => [...goal().matchAll(/"([^"]*)"/g)][n]?.[1] ?? "";
  const text = (element) => element.textContent.trim();
  const seen = (element) =>
    element !== null &&
    element !== undefined &&
    element.getClientRects().length > 0 &&
    element.checkVisibility({ visibilityProperty: true });
  const rect = (element) => {
    const { x, y, width, height } = element.getClientRects()[0] ?? element.getBoundingClientRect();
    return { x, y, width, height };
  };
  const click = (element) => (seen(element) ? [{ click: rect(element) }] : []);
  const paid = (element) => {
    const real = core.endEpisode;
    let reward = 0;
    core.endEpisode = (value) => {
      reward = value;
    };
    try {
      element.dispatchEvent(new MouseEvent("click", { bubbles: false, cancelable: true }));
    } finally {
      core.endEpisode = real;
    }
    return reward;
  };
  const probe = (selector) => () =>
    click(
      $all(selector)
        .filter(seen)
        .find((element) => paid(element) > 0),
    );
  const submit = () => $one("#subbtn") ?? $one("#submit") ?? $all("#area button").at(-1);
  /** Fields with what they must hold; the first that is wrong is typed anew. */
  const fill = (...pairs) => {
    const [field, value] = pairs.find(([one, wanted]) => one.value !== wanted) ?? [];
    if (field === undefined) return click(submit());
    const start = { ...rect(field), ...(/date|time/.test(field.type) && { width: 14 }) };
    return [
      ...(document.activeElement === field ? [] : [{ click: start }]),
      ...(field.value === "" ? [] : [{ key: "select_all" }]),
      { type: String(value) },
    ];
  };
  const boxes = (wanted) => {
    const wrong = $all("#area label").find(
      (label) => (label.querySelector("input")?.checked ?? false) !== wanted.includes(text(label)),
    );
    return wrong === undefined ? click(submit()) : click(wrong.querySelector("input"));
  };
  const listed = () =>
    goal()
      .replace(/^Select /, "")
      .replace(/ and click Submit\.$/, "")
      .split(", ");
  const linkBehind = (panel, opener) => () => {
    const link = $all(".alink").find((one) => text(one) === quoted());
    // Some tabs are filled when they are opened.
    if (link === undefined) return click($one('[role=tab]:not([aria-selected="true"]) a'));
    // A panel that still opens hides its links under the next one.
    if ($(":animated").length > 0) return [{ wait: true }];
    return seen(link) ? click(link) : click(opener(link.closest(panel)));
  };
  const tabLink = linkBehind(".ui-tabs-panel", (panel) => $one(`#area ul a[href="#${panel.id}"]`));
  const foldLink = linkBehind(".ui-accordion-content", (panel) => panel.previousElementSibling);
  const fold = () => ($all(".ui-accordion-content").some(seen) ? click(submit()) : click($one(".ui-accordion-header")));
  const login = () =>
    seen($one("#popup-cancel"))
      ? click($one("#popup-cancel"))
      : fill([$one("#username"), quoted(0)], [$one("#password"), quoted(1)]);
  /** The largest part of an element beside another that may lie on it. */
  const beside = (element, other) => {
    const [a, b] = [rect(element), rect(other)];
    const right = Math.max(a.x, b.x + b.width);
    const below = Math.max(a.y, b.y + b.height);
    const parts = [
      { ...a, width: Math.min(a.width, b.x - a.x) },
      { ...a, x: right, width: a.x + a.width - right },
      { ...a, height: Math.min(a.height, b.y - a.y) },
      { ...a, y: below, height: a.y + a.height - below },
    ].filter(({ width, height }) => width > 0 && height > 0);
    return parts.sort((one, two) => two.width * two.height - one.width * one.height)[0] ?? a;
  };
  const point = (x, y) => [{ click: { x: x - 0.5, y: y - 0.5, width: 1, height: 1 } }];
  const two = (n) => String(n).padStart(2, "0");

  const oracles = {
    "click-test": () => click($one("#subbtn")),
    "click-test-2": () => [{ click: beside($one("#subbtn"), $one("#subbtn2")) }],
    "click-test-transfer": probe("#area button"),
    "click-button": probe("#area button"),
    "click-button-sequence": () => click($one(buttonsPushed.length === 0 ? "#subbtn" : "#subbtn2")),
    "click-color": probe("#area .color"),
    "click-shape": probe("#area_svg *"),
    "click-shades": () => {
      const color = goal().match(/shades of (\w+)/)?.[1];
      const wrong = $all("#area span").find((one) => (one.className === "selected") !== (one.dataset.color === color));
      return click(wrong ?? $one("#area button"));
    },
    "click-tab": () => click($all("#area ul a").find((one) => goal().includes(text(one)))),
    "click-tab-2": tabLink,
    "click-tab-2-easy": tabLink,
    "click-tab-2-medium": tabLink,
    "click-tab-2-hard": tabLink,
    "click-link": probe(".alink"),
    "click-dialog": () => click($one(".ui-dialog-titlebar button")),
    "click-dialog-2": () =>
      click(
        quoted() === "x"
          ? $one(".ui-dialog-titlebar button")
          : $all(".ui-dialog-buttonset button").find((one) => text(one) === quoted()),
      ),
    "click-option": () => boxes(listed()),
    "click-checkboxes": () => boxes(listed()),
    "click-checkboxes-large": () => boxes(listed()),
    "click-checkboxes-transfer": () => boxes(listed()),
    "click-checkboxes-soft": () => {
      const now = paid($one("#subbtn"));
      const wrong = $all("#area input[type=checkbox]").find((one) => {
        one.checked = !one.checked;
        const better = paid($one("#subbtn")) > now;
        one.checked = !one.checked;
        return better;
      });
      return click(wrong ?? $one("#subbtn"));
    },
    "click-collapsible": fold,
    "click-collapsible-nodelay": fold,
    "click-collapsible-2": foldLink,
    "click-collapsible-2-nodelay": foldLink,
    "click-widget": () => {
      const widget = $all("#area .widget").find((one) => paid(one) > 0);
      return widget === undefined ? [] : click(widget.querySelector("input, textarea, button"));
    },
    "focus-text": () => click($one("#area input")),
    "focus-text-2": () => click($all("#area input")[Number(goal().match(/(\d)/)?.[1]) - 1]),
    "enter-text": () => fill([$one("#tt"), quoted()]),
    "enter-text-2": () =>
      fill([$one("#tt"), /upper case/.test(goal()) ? quoted().toUpperCase() : quoted().toLowerCase()]),
    "enter-text-dynamic": () => fill([$one("#tt"), quoted()]),
    "enter-password": () => fill([$one("#password"), quoted()], [$one("#verify"), quoted()]),
    "login-user": login,
    "login-user-popup": login,
    "enter-date": () => {
      const [, month, day, year] = goal().match(/(\d+)\/(\d+)\/(\d+)/) ?? [];
      const field = $one("#tt");
      if (field.value === `${year}-${month}-${day}`) return click(submit());
      return [{ click: { ...rect(field), width: 14 } }, { type: `${month}${day}${year}` }];
    },
    "enter-time": () => {
      const [, hour, minute, half] = goal().match(/(\d+):(\d+)\s*([AP])M/) ?? [];
      const field = $one("#tt");
      const wanted = `${two((Number(hour) % 12) + (half === "P" ? 12 : 0))}:${minute}`;
      return field.value === wanted
        ? click(submit())
        : [{ click: { ...rect(field), width: 14 } }, { type: `${two(hour)}${minute}${half}M` }];
    },
    "choose-list": () => {
      const select = $one("#options");
      const wanted = goal()
        .replace(/^Select /, "")
        .replace(/ from the list and click Submit\.$/, "");
      if ((select.selectedOptions[0]?.text ?? "") === wanted)
        return seen($one("[role=listbox]")) ? [{ key: "escape" }] : click(submit());
      return [...(document.activeElement === select ? [] : [{ click: rect(select) }]), { type: wanted }];
    },
    "identify-shape": probe("#area-buttons button"),
    "count-shape": probe("#count-buttons button"),
    "count-sides": probe("#area button"),
    "simple-arithmetic": () => {
      const [, a, sign, b] = text($one("#math-problem")).match(/(-?\d+) ([+x-]) (-?\d+)/) ?? [];
      const answer = sign === "+" ? Number(a) + Number(b) : sign === "-" ? a - b : a * b;
      return fill([$one("#math-answer"), String(answer)]);
    },
    "simple-algebra": () => {
      const problem = text($one("#math-problem"));
      const [, sign] = problem.match(/ ([+-]) /) ?? [];
      const [known, result] = [...problem.matchAll(/-?\d+/g)].map(Number);
      return fill([
        $one("#math-answer"),
        String(sign === "+" ? result - known : problem.startsWith("x") ? result + known : known - result),
      ]);
    },
    "visual-addition": () =>
      fill([$one("#math-answer"), String($one("#visual-1").children.length + $one("#visual-2").children.length)]),
    "read-table": () => {
      const row = $all("#tab tr").find((one) => goal().includes(`value of ${text(one.cells[0])} into`));
      return row === undefined ? [] : fill([$one("#tt"), text(row.cells[1])]);
    },
    "read-table-2": () => {
      const value = (label) => text($all("#tab tr").find((one) => text(one.cells[0]) === label.dataset.key).cells[1]);
      return fill([$one("#tt1"), value($one("#ll1"))], [$one("#tt2"), value($one("#ll2"))]);
    },
    "grid-coordinate": probe("#area circle"),
    "circle-center": () => {
      const [circle, mine] = $all("svg circle");
      const box = rect(circle);
      return mine === undefined ? point(box.x + box.width / 2, box.y + box.height / 2) : click(submit());
    },
    "find-midpoint": () => {
      const [a, b, mine] = $all("svg circle").map(rect);
      return mine === undefined ? point((a.x + b.x + a.width) / 2, (a.y + b.y + a.height) / 2) : click(submit());
    },
    "odd-or-even": () => {
      const row = $all("#area .row").find(
        (one) =>
          one.querySelector(
            Number(text(one.querySelector(".display-number"))) % 2 === 0 ? ".even.selected" : ".odd.selected",
          ) === null,
      );
      return row === undefined
        ? click(submit())
        : click(row.querySelector(Number(text(row.querySelector(".display-number"))) % 2 === 0 ? ".even" : ".odd"));
    },
    "guess-number": () => {
      const field = $one("#tt");
      const feedback = $one("#feedback");
      const [before, shown] = [field.value, feedback.innerHTML];
      for (const guess of "0123456789") {
        field.value = guess;
        const right = paid($one("#subbtn")) > 0;
        field.value = before;
        // A try must leave nothing to be seen.
        feedback.innerHTML = shown;
        if (right) return fill([field, guess]);
      }
      return [];
    },
    "use-spinner": () => {
      const wanted = Number(goal().match(/Select (-?\d+)/)?.[1]);
      const now = Number($one("#spinner").value) || 0;
      return now === wanted ? click(submit()) : click($one(now < wanted ? ".ui-spinner-up" : ".ui-spinner-down"));
    },
    "use-slider": () => {
      const slider = $("#slider");
      const [min, max, now] = [slider.slider("option", "min"), slider.slider("option", "max"), slider.slider("value")];
      const wanted = Number(goal().match(/Select (-?\d+)/)?.[1]);
      if (now === wanted) return click(submit());
      // Near enough for a click; the rest by keys.
      if (document.activeElement?.classList.contains("ui-slider-handle"))
        return [{ key: wanted > now ? "up" : "down" }];
      const box = rect($one("#slider"));
      const part = (wanted - min) / (max - min);
      return slider.slider("option", "orientation") === "horizontal"
        ? point(box.x + part * box.width, box.y + box.height / 2)
        : point(box.x + box.width / 2, box.y + (1 - part) * box.height);
    },
    "drag-box": () => {
      const [small, large] = [$one("#draggableSmall"), $one("#draggableLarge")].map((one) => {
        const { x, y, width, height } = one.getBoundingClientRect();
        return { x, y, width, height };
      });
      const inside =
        small.x > large.x &&
        small.y > large.y &&
        small.x + small.width < large.x + large.width &&
        small.y + small.height < large.y + large.height;
      return inside ? click(submit()) : [{ drag: [small, large] }];
    },
    "navigate-tree": () => {
      const wanted = $all("#tree span").find((one) => text(one) === quoted());
      if (wanted === undefined) return [];
      if (seen(wanted)) return click(wanted);
      const closed = $all("#tree li").find(
        (one) => one.contains(wanted) && seen(one.querySelector("span")) && !seen(one.querySelector("ul")),
      );
      return closed === undefined ? [] : click(closed.querySelector("span"));
    },
    "scroll-text": () =>
      fill([
        $one("#answer-input"),
        $one("#text-area")
          .value.trim()
          .split(/\s+/)
          .at(-1)
          .replace(/[^a-zA-Z0-9]/g, ""),
      ]),
    "generate-number": () => click(paid($one("#submit")) > 0 ? $one("#submit") : $one("#generate")),
    "find-word": () =>
      fill([
        $one("#area input"),
        ($one("#area p") ?? $one("#area div")).textContent
          .trim()
          .split(/\s+/)
          [Number(goal().match(/(\d+)/)?.[1]) - 1]?.replace(/[^a-zA-Z0-9]/g, "") ?? "",
      ]),
  };
  const named =
    (selector, name = text) =>
    () =>
      $all(selector)
        .filter(seen)
        .map((one) => ({ name: name(one), box: rect(one) }));
  /** `large red circle`, in the words of the instruction. */
  const shape = (one) => {
    const glyph = one.tagName === "text";
    const { width } = one.getBBox();
    const large = glyph ? Number.parseInt(one.getAttribute("font-size"), 10) > 10 : width > 10;
    const kind = glyph ? text(one) : { rect: "rectangle", circle: "circle", polygon: "triangle" }[one.tagName];
    return `${large ? "large" : "small"} ${one.getAttribute("fill")} ${kind}`;
  };
  /** An order that says nothing of the page, and is the same whenever the page is asked. */
  const shuffled = (sights) => {
    const rank = ({ name, box }) => {
      let hash = 2166136261;
      for (const letter of `${name} ${box.x} ${box.y}`) hash = Math.imul(hash ^ letter.charCodeAt(0), 16777619);
      return (hash ^ (hash >>> 15)) >>> 0;
    };
    return sights
      .map((sight) => [rank(sight), sight])
      .sort(([a], [b]) => a - b)
      .map(([, sight]) => sight);
  };
  /**
   * What there is to click in the tasks of the recipe `click`: first what the instruction means, then up to three others in no order. So a name is known before its place is looked for.
   * In the other tasks the page's elements tell.
   */
  const sights = {
    "click-test": named("#area button"),
    "click-test-2": () => [
      { name: "ONE", box: beside($one("#subbtn"), $one("#subbtn2")) },
      { name: "TWO", box: rect($one("#subbtn2")) },
    ],
    "click-button": named("#area button"),
    "click-color": named("#area .color", (one) => one.dataset.color),
    "click-shape": named("#area_svg *", shape),
    "click-tab": named("#area ul a"),
    "click-link": named(".alink"),
    "click-dialog": named(".ui-dialog-titlebar button", () => "x"),
  };
  const list = sights[task];
  const aimFirst = () => {
    const all = list();
    const [aim] = WOB_DONE_GLOBAL ? [] : oracles[task]();
    const meant = all.filter(({ box }) => box.x === aim?.click?.x && box.y === aim.click.y).slice(0, 1);
    const others = all.filter((one) => !meant.includes(one));
    return [...meant, ...shuffled(others).slice(0, 3)];
  };
  return { plan: oracles[task], sights: list && aimFirst };
};
