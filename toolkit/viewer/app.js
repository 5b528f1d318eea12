// The viewer of answers: one app, in a notebook (anywidget asks its kernel) and on an exported page (the data are inside).
// Whatever comes from a model is text: it is set as text here, or has passed the sanitiser of the Python side.

const DASH = "–";
const BINS = ["S", "M", "L"];
// Name in the data, head, kind (digits for a number, else how it is filtered), and what the head means.
const COLUMNS = [
  ["prompt", "prompt", "text", "part of the prompt's id; in quotes: the whole id"],
  ["scenario", "scenario", "choice", ""],
  ["model", "model", "choice", ""],
  ["repeat", "rep.", 0, "which repeat of the same prompt"],
  ["bin", "bin", "choice", "length bin of the prompt"],
  ["state", "status", "choice", "failed, why the reply is left out, or whether it is judged"],
  ["composite", "composite", 2, "composite of a judge's scores (by the default rubric the mean of those above 0), averaged over the judges"],
  ["strict", "strict", 2, "composite that counts the zeros too, averaged over the judges"],
  ["sd", "SD", 2, "standard deviation of the judges' composites: where it is large, read"],
  ["people", "people", 2, "mean composite of those who rated; no part of the other numbers"],
  ["aud", "AUD", 4, "cost of the reply, without the judges"],
  ["tokens", "tokens", 0, "of the reply"],
  ["s", "s", 1, "seconds until the reply was there"],
];
const CONDITION = "numbers like >=3, <2, 2-4, 3.5; none for missing, any for not missing";
const KEYS = "Keys: ↓ ↑ (or n p) next and previous run, c compare, m matrix, / find, e export page, Esc back to the table.";
const ROW = 28; // pixels, as in app.css
const READING = "Pick a run in the table: a click, or the arrow keys.";

/** Make an element; texts inside of it become text and never HTML. */
const h = (tag, attributes = {}, ...inside) => {
  const made = document.createElement(tag);
  // JupyterLab takes single keys for itself, unless the very element that has the focus says so.
  if (attributes.tabindex || ["button", "input", "select"].includes(tag)) made.setAttribute("data-lm-suppress-shortcuts", "true");
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== false && value != null) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...inside);
  return made;
};

/** A number for people: a dash where it is missing, and never a zero for what is only small. */
const number = (value, digits) => {
  if (value == null) return DASH;
  const least = 10 ** -digits, small = value > 0 && value < least / 2;
  const shape = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return (small ? "<" : "") + (small ? least : value).toLocaleString("en", shape);
};

/** What a number must be; null where everything will do, undefined where nobody can tell. */
const condition = (text, digits) => {
  const said = text.trim().toLowerCase(), num = "(-?\\d+(?:\\.\\d+)?)";
  if (!said) return null;
  if (said === "none" || said === DASH) return value => value == null;
  if (said === "any") return value => value != null;
  const two = said.match(new RegExp(`^${num}\\s*(?:-|–|to)\\s*${num}$`));
  if (two) return value => value != null && value >= +two[1] && value <= +two[2];
  const one = said.match(new RegExp(`^(>=|≥|<=|≤|>|<|=)?\\s*${num}$`));
  if (!one) return undefined;
  const wanted = +one[2];
  const holds = {
    ">": value => value > wanted, ">=": value => value >= wanted, "≥": value => value >= wanted,
    "<": value => value < wanted, "<=": value => value <= wanted, "≤": value => value <= wanted,
  }[one[1]] ?? (value => +value.toFixed(digits) === wanted);
  return value => value != null && holds(value);
};

/** An id that, where room is short, loses its middle: what tells two apart stands at its end. The text stays whole. */
const middle = text => text.length < 14 ? text
  : h("span", { class: "tv-middle" }, h("span", {}, text.slice(0, -9)), h("span", {}, text.slice(-9)));

const compared = new Intl.Collator("en", { numeric: true }).compare;
const before = (name, one, other) =>
  name === "bin" ? BINS.indexOf(one) - BINS.indexOf(other)
  : typeof one === "string" ? compared(one, other) : one - other;

/** Cut two texts into words that both have and words that one lacks: [text, lacking] for each side. */
export const differences = (left, right) => {
  const shapes = { words: /[\u3040-\u30ff\u3400-\u9fff]|[\p{L}\p{N}_]+|\s+|[^\s]/gu, lines: /[^\n]+|\n+/g, texts: /^[^]+$/g };
  let pair, unit;
  for (unit of Object.keys(shapes)) {
    pair = [left, right].map(text => text.match(shapes[unit]) ?? []);
    // One number for each two words: a long pair is compared line by line, or the page would need gigabytes.
    if (pair[0].length * pair[1].length <= 3e7) break;
  }
  const [a, b] = pair.map(all => all.filter(one => one.trim()));
  const wide = b.length + 1, best = new Uint16Array((a.length + 1) * wide); // shared from here on, as every textbook has it
  const rest = (i, j) => best[i * wide + j];
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      best[i * wide + j] = a[i] === b[j] ? rest(i + 1, j + 1) + 1 : Math.max(rest(i + 1, j), rest(i, j + 1));
  const lacks = [new Set(), new Set()];
  for (let i = 0, j = 0; i < a.length || j < b.length; )
    if (i < a.length && j < b.length && a[i] === b[j]) i++, j++;
    else if (j === b.length || (i < a.length && rest(i + 1, j) >= rest(i, j + 1))) lacks[0].add(i++);
    else lacks[1].add(j++);
  const sides = pair.map((all, side) => {
    const pieces = [];
    let at = 0, last = false;
    for (const one of all) {
      // White space is no difference; between two words that differ it belongs to them.
      const lacking = one.trim() ? lacks[side].has(at++) : last && lacks[side].has(at);
      if (pieces.length && last === lacking) pieces.at(-1)[0] += one;
      else pieces.push([one, lacking]);
      last = lacking;
    }
    return pieces;
  });
  const total = a.length + b.length;
  return { sides, unit, shared: total ? 1 - (lacks[0].size + lacks[1].size) / total : 1 };
};

/** The app in `root`, over a source that has rows(blind), open(ids), search(text), and perhaps exportPage and stamp. */
export const viewer = (root, source) => {
  let data, rows, count, found = [], open = null, held = null, sort = null, texts = null;
  let matrix = false, asked = 0, pause = 0, ended = false;
  const wanted = {}, opened = new Map();
  root.classList.add("tv", "tv-app", "tex2jax_ignore", "mathjax_ignore");

  const status = h("b", { role: "status" }), said = h("span", { "aria-live": "polite" });
  const region = (kind, name, ...inside) =>
    h("div", { class: kind, tabindex: "0", role: "region", "aria-label": name }, ...inside);
  const button = (words, title, work) => h("button", { type: "button", title, onclick: work }, words);
  const soft = (...inside) => h("p", { class: "tv-soft" }, ...inside);
  const FIND = "Find in prompt, reply or id", UNTICK = "Untick it only if you do not rate: nothing else keeps a rater from these scores.";
  const find = h("input", { type: "search", "aria-label": FIND, placeholder: FIND.toLowerCase(), oninput: () => {
    clearTimeout(pause);
    pause = setTimeout(search, 300);
  } });
  const compare = button("Compare", "Keep this run at the side of the next ones (c)", () => hold());
  const overview = button("Matrix", "Mean composite of each prompt and model (m)", () => turn());
  const blind = h("input", { type: "checkbox", checked: true, onchange: () => load(true) }), blindWords = h("span");
  const blindLabel = h("label", { hidden: true, title: UNTICK }, blind, blindWords);
  const tools = h("div", { class: "tv-tools" },
    button("Previous", "The run before this one (p)", () => step(-1)), button("Next", "The run after this one (n)", () => step(1)),
    compare, overview, find);
  if (source.exportPage) tools.append(button("Export page", "All runs of the filter as one HTML page (e)", () => exportPage()));
  tools.append(blindLabel);
  const body = h("tbody"), heads = h("tr"), filters = h("tr", { class: "tv-filters" });
  const table = h("table", { "aria-label": "Runs" }, h("colgroup"), h("thead", {}, heads, filters), body);
  const list = region("tv-list", "Table of runs", table), overviewPlace = region("tv-list tv-matrix", "Matrix of prompts and models");
  const reading = region("tv-read", "The run that is open", soft(READING));
  const titleLine = h("p", { class: "tv-soft tv-about" });
  list.addEventListener("scroll", () => draw());
  overviewPlace.hidden = true;
  root.append(titleLine, tools, h("p", { class: "tv-said" }, status, " ", said),
    h("div", { class: "tv-frame" }, h("div", { class: "tv-left" }, list, overviewPlace), reading),
    h("p", { class: "tv-soft tv-keys" }, source.exportPage ? KEYS : KEYS.replace(" e export page,", "")));

  const say = text => { said.textContent = text; };
  const guarded = work => async (...given) => {
    try { await work(...given); } catch (error) { say(error.message); }
  };
  const name = at => `${rows.prompt[at]} · ${rows.model[at]} · repeat ${rows.repeat[at]}`;

  const load = guarded(async (again = false) => {
    data = await source.rows(blind.checked);
    opened.clear();
    rows = data.rows;
    rows.s = rows.ms.map(ms => (ms == null ? null : ms / 1000));
    count = rows.run.length;
    const chosen = data.chosen ? ` Chosen: ${data.chosen}.` : "", hidden = data.hidden ?? { runs: 0 };
    titleLine.textContent = `${data.warning} Study ${data.name}, dataset ${data.dataset}. ${data.note}${chosen}`;
    blindLabel.hidden = !hidden.runs && blind.checked;
    if (hidden.runs)
      blindWords.textContent = ` Hide the scores of ${hidden.runs} runs that are being rated blind, by ${hidden.raters.join(", ")}`;
    drawHeads();
    choose();
    if (again === true && open) await read(open);
  });

  const place = (key, kind) => `tv-c-${key}${kind >= 0 ? " tv-number" : ""}`;

  const drawHeads = () => {
    const told = ([key]) => new Set(rows[key]).size > (["scenario", "bin"].includes(key) ? 1 : 0) && rows[key].some(one => one != null);
    const there = COLUMNS.filter(told);
    table.querySelector("colgroup").replaceChildren(...there.map(([key]) => h("col", { class: place(key) })));
    heads.replaceChildren(...there.map(([key, head, kind, means]) => {
      const way = sort?.key !== key ? "none" : sort.down ? "descending" : "ascending";
      const title = `Sort by ${head}${means ? `: ${means}` : ""}`, sign = { ascending: " ▲", descending: " ▼", none: "" }[way];
      const made = h("button", { type: "button", title, onclick: () => sortBy(key) }, head + sign);
      return h("th", { class: place(key, kind), "aria-sort": way }, made);
    }));
    // Controls that somebody types into stay, while new runs come in.
    if (filters.children.length === there.length && filters.contains(document.activeElement)) return;
    filters.replaceChildren(...there.map(column => h("th", { class: place(column[0]) }, control(column))));
  };

  const control = ([key, head, kind, means]) => {
    const take = event => { wanted[key] = event.target.value; choose(); };
    const label = `Filter by ${head}`, title = kind >= 0 ? CONDITION : means || label;
    const shared = { "aria-label": label, title, [kind === "choice" ? "onchange" : "oninput"]: take };
    const values = [...new Set(rows[key].filter(value => value != null))].sort((one, other) => before(key, one, other));
    const made = kind !== "choice" ? h("input", { ...shared, placeholder: kind === "text" ? "part" : "≥" })
      : h("select", shared, h("option", { value: "" }, "all"), ...values.map(value => h("option", { value }, value)));
    made.value = wanted[key] ?? "";
    return made;
  };

  const sortBy = key => {
    sort = sort?.key !== key ? { key, down: false } : sort.down ? null : { key, down: true };
    drawHeads();
    choose();
  };

  /** Find the rows of the filter and draw them. */
  const choose = () => {
    const tests = [], words = [];
    let wrong = "";
    for (const [key, head, kind] of COLUMNS) {
      const text = (wanted[key] ?? "").trim(), column = rows[key], exact = text.match(/^"(.*)"$/)?.[1], part = text.toLowerCase();
      const holds = kind >= 0 ? condition(text, kind) : kind === "choice" ? value => value === text
        : exact ? value => value === exact : value => value.toLowerCase().includes(part);
      filters.querySelector(`.tv-c-${key} > *`)?.setAttribute("aria-invalid", String(holds === undefined));
      if (holds === undefined) wrong = `${head}: ${JSON.stringify(text)} is no filter; write ${CONDITION}.`;
      if (!text || !holds) continue;
      tests.push(at => holds(column[at]));
      words.push(`${head} ${text}`);
    }
    if (texts) {
      tests.push(at => texts.has(rows.run[at]));
      words.push(`with ${JSON.stringify(find.value.trim())} in it`);
    }
    if (wrong || choose.wrong) say(wrong);
    choose.wrong = wrong;
    found = [];
    for (let at = 0; at < count; at++) if (tests.every(holds => holds(at))) found.push(at);
    if (sort) {
      const column = rows[sort.key], way = sort.down ? -1 : 1;
      found.sort((one, other) => column[one] == null || column[other] == null
        ? (column[one] == null) - (column[other] == null) : way * before(sort.key, column[one], column[other]));
    }
    const [some, all, planned] = [found.length, count, data.planned].map(one => number(one, 0));
    choose.words = words.join("; ");
    status.textContent = `${some} of ${all} runs${data.planned > count ? ` so far, of ${planned} planned` : ""}${words.length ? " · " : ""}${choose.words}`;
    if (matrix) drawMatrix();
    else draw();
  };

  /** Draw the rows that can be seen, and as much room as the others take. */
  const draw = () => {
    const columns = COLUMNS.filter(([key]) => heads.querySelector(`.tv-c-${key}`));
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 10);
    const last = Math.min(found.length, first + Math.ceil(list.clientHeight / ROW) + 30);
    const room = high => h("tr", { "aria-hidden": "true", style: `height: ${high}px` });
    const cell = (at, [key, , kind]) => {
      const text = kind >= 0 ? number(rows[key][at], kind) : rows[key][at] ?? DASH;
      const more = { composite: `, strict ${number(rows.strict[at], 2)}`, people: ` of ${rows.raters[at]}` }[key] ?? "";
      return h("td", { class: place(key, kind), title: text + more }, ["prompt", "model"].includes(key) ? middle(text) : text);
    };
    const line = at => {
      const id = rows.run[at], selected = String(id === open);
      return h("tr", { class: id === held ? "tv-held" : "", "aria-selected": selected, onclick: () => read(id) },
        ...columns.map(column => cell(at, column)));
    };
    body.replaceChildren(room(first * ROW), ...found.slice(first, last).map(line), room((found.length - last) * ROW));
  };

  const read = guarded(async id => {
    open = id;
    const at = rows.run.indexOf(id), where = found.indexOf(at), top = where * ROW, high = heads.parentElement.offsetHeight;
    if (where >= 0 && top < list.scrollTop) list.scrollTop = top;
    else if (where >= 0) list.scrollTop = Math.max(list.scrollTop, top + ROW + high - list.clientHeight);
    if (!matrix) draw();
    const mine = ++asked, both = held && held !== id;
    const ids = both ? [held, id] : [id], absent = ids.filter(one => !opened.has(one));
    const got = absent.length ? await source.open(absent) : [];
    absent.forEach((one, place) => opened.set(one, got[place]));
    const html = ids.map(one => opened.get(one));
    while (opened.size > 20) opened.delete(opened.keys().next().value);
    if (mine !== asked) return; // a newer one is on its way
    const drawn = html.map(one => {
      const article = h("article", { class: "tv-run" });
      article.innerHTML = one; // sanitised in Python
      return article;
    });
    const come = source.address(id);
    say(`Run ${where < 0 ? "outside the filter" : `${number(where + 1, 0)} of ${number(found.length, 0)}`}: ${name(at)}`);
    reading.replaceChildren(...(come ? [soft("Come back with ", h("code", {}, come))] : []),
      ...(both ? [beside(rows.run.indexOf(held), at, drawn), h("div", { class: "tv-two" }, ...drawn)] : drawn));
    reading.scrollTop = 0;
    compare.textContent = held ? "Stop comparing" : "Compare";
  });

  /** Two runs side by side: what differs in facts and scores, then the texts word by word. */
  const beside = (left, right, drawn) => {
    const facts = [["composite", "composite", 2], ["composite, strict", "strict", 2],
      ...data.dimensions.map(one => [one.replaceAll("_", " "), one, 2]), ["judges", "judges", 0], ["people", "people", 2],
      ["tokens of the reply", "tokens", 0], ["cost, AUD", "aud", 6], ["seconds", "s", 1]];
    const value = text => h("td", { class: "tv-number" }, text);
    const lines = facts.map(([head, key, digits]) => {
      const one = rows[key][left], other = rows[key][right];
      const less = one == null || other == null ? null : +(other - one).toFixed(digits) + 0;
      return h("tr", {}, h("th", { scope: "row" }, head), value(number(one, digits)), value(number(other, digits)),
        value(less == null ? DASH : (less < 0 ? "−" : "+") + number(Math.abs(less), digits)));
    });
    const head = [name(left), name(right), "right less left"].map(text => h("th", { class: "tv-number", scope: "col" }, text));
    return h("section", { class: "tv-beside" }, h("h2", {}, "Two runs side by side"),
      h("table", { "aria-label": "Facts and scores" }, h("thead", {}, h("tr", {}, h("th"), ...head)), h("tbody", {}, ...lines)),
      ...twoTexts("reply", drawn), ...twoTexts("prompt", drawn));
  };

  const twoTexts = (what, drawn) => {
    const texts = drawn.map(one => one.querySelector(`[data-find="${what}"]`)?.textContent);
    const none = ["left", "right"].filter((_, side) => texts[side] == null).join(" and ");
    if (none) return [h("p", { class: "tv-bad" }, `No ${what} on the ${none}: there is nothing to compare.`)];
    if (texts[0] === texts[1]) return [soft(`Both have the same ${what}.`)];
    const { sides, unit, shared } = differences(...texts);
    const why = unit === "words" ? "" : " (too long to be compared word by word)";
    const side = (pieces, at) => {
      const label = `${["Left", "Right"][at]} ${what}`, tag = ["del", "ins"][at];
      return h("pre", { class: "tv-text", dir: "auto", tabindex: "0", role: "region", "aria-label": label },
        ...pieces.map(([text, lacking]) => (lacking ? h(tag, {}, text) : text)));
    };
    return [soft(`${Math.round(shared * 100)}% of the ${unit} of the ${what} are shared${why}; `, h("del", {}, "only left"), ", ",
      h("ins", {}, "only right"), "."), h("div", { class: "tv-two" }, ...sides.map(side))];
  };

  const hold = () => {
    if (!open) return say("Open a run first.");
    held = held ? null : open;
    draw();
    if (!held) return read(open);
    compare.textContent = "Stop comparing";
    say("This run stays at the side: open another one. Press again to let it go.");
  };

  const step = by => {
    const where = open ? found.indexOf(rows.run.indexOf(open)) : -1, next = where < 0 ? 0 : where + by;
    if (!found.length) return say("No run is left by this filter.");
    if (next < 0 || next >= found.length) return say(by > 0 ? "This is the last run." : "This is the first run.");
    return read(rows.run[found[next]]);
  };

  const search = guarded(async () => {
    const text = find.value.trim();
    if (text) say("Searching the texts of all runs.");
    const there = text ? new Set(await source.search(text)) : null;
    if (text !== find.value.trim()) return; // more was typed meanwhile
    texts = there;
    say("");
    choose();
  });

  const exportPage = guarded(async () => {
    if (!found.length) return say("No run is left by this filter.");
    say(`Writing ${number(found.length, 0)} runs.`);
    const pair = held && held !== open ? [held, open] : null;
    say(await source.exportPage(found.map(at => rows.run[at]), pair, choose.words));
  });

  const turn = () => {
    matrix = !matrix;
    overview.textContent = matrix ? "Table" : "Matrix";
    list.hidden = matrix;
    overviewPlace.hidden = !matrix;
    choose();
  };

  /** The mean of each prompt (its base down, its length bins across) and model, over the runs of the filter. */
  const drawMatrix = () => {
    const cells = new Map(), bases = new Set(), tops = new Map();
    for (const at of found) {
      const model = rows.model[at], bin = rows.bin[at] ?? "", base = rows.base[at] ?? rows.prompt[at], key = `${base}\n${model}\n${bin}`;
      tops.set(`${model}\n${bin}`, [model, bin]);
      bases.add(base);
      if (!cells.has(key)) cells.set(key, { prompt: rows.prompt[at], model, run: rows.run[at], all: 0, scores: [] });
      const cell = cells.get(key);
      cell.all += 1;
      if (rows.composite[at] != null) cell.scores.push(rows.composite[at]);
    }
    const across = [...tops.values()].sort((one, other) => compared(one[0], other[0]) || before("bin", one[1], other[1]));
    const [low, high] = data.ends, heat = mean => Math.round((55 * (mean - low)) / (high - low));
    const wide = Map.groupBy(across, ([model]) => model);
    const go = cell => {
      Object.assign(wanted, { prompt: `"${cell.prompt}"`, model: cell.model });
      turn();
      drawHeads();
      choose();
      read(cell.run);
      list.focus();
    };
    const square = cell => {
      if (!cell) return h("td", { title: "no run" });
      const { scores, all, prompt, model } = cell, mean = scores.length ? scores.reduce((sum, one) => sum + one) / scores.length : null;
      const title = `${prompt}, ${model}: ${number(mean, 2)}, ${scores.length} of ${all} runs with a score`;
      const press = h("button", { type: "button", title, "aria-label": title, onclick: () => go(cell) }, number(mean, 2));
      return h("td", { class: "tv-number", style: `--heat: ${mean == null ? 0 : heat(mean)}%` }, press);
    };
    const legend = h("p", { class: "tv-soft tv-legend" }, `Mean composite: ${low} `, h("span", { role: "img",
      "aria-label": "from pale to blue", style: `--heat: ${heat(high)}%` }), ` ${high}. ${DASH}: no run with a score; empty: no run. `,
    "A click opens the runs of a cell.");
    overviewPlace.replaceChildren(
      legend,
      h("table", {}, h("thead", {},
        h("tr", {}, h("th"), ...[...wide].map(([model, some]) => h("th", { colspan: some.length, scope: "colgroup" }, model))),
        h("tr", {}, h("th"), ...across.map(([, bin]) => h("th", { class: "tv-number", scope: "col" }, bin || "composite")))),
      h("tbody", {}, ...[...bases].sort(compared).map(base => h("tr", {}, h("th", { scope: "row", title: base }, middle(base)),
        ...across.map(([model, bin]) => square(cells.get(`${base}\n${model}\n${bin}`))))))));
  };

  root.addEventListener("keydown", event => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "Escape") return (matrix ? overviewPlace : list).focus();
    if (event.target.matches("input, select, textarea")) return;
    const arrows = event.target === list || event.target.closest(".tv-tools"); // elsewhere they scroll
    const work = { n: () => step(1), p: () => step(-1), c: hold, m: turn, "/": () => find.focus(),
      ...(source.exportPage ? { e: exportPage } : {}), ...(arrows ? { ArrowDown: () => step(1), ArrowUp: () => step(-1) } : {}) }[event.key];
    if (!work) return;
    event.preventDefault();
    work();
  });

  /** Ask from time to time whether there is more, while the study runs and somebody looks. */
  const live = async () => {
    let pause = 3000;
    while (!ended) {
      await new Promise(done => setTimeout(done, pause));
      const going = data && (data.planned > count || rows.state.includes("not judged"));
      if (ended || !source.stamp || !going || document.hidden || !root.checkVisibility()) continue;
      try {
        const stamp = await source.stamp();
        if (String(stamp) === String(data.stamp)) continue;
        const from = performance.now();
        await load();
        pause = Math.max(3000, 5 * (performance.now() - from));
      } catch { pause = 30000; }
    }
  };

  const resized = new ResizeObserver(() => data && !matrix && draw());
  resized.observe(list);
  load().then(() => {
    if (!data) return;
    source.started?.(data);
    const [first, second] = data.pair ?? [source.first?.() ?? data.first];
    if (second) { held = first; open = first; }
    if (second ?? first) read(second ?? first);
    live();
  });
  return () => { ended = true; resized.disconnect(); };
};

/** The source of a notebook: every question is a message to the kernel, and has an answer or an error. */
const kernelSource = model => {
  const waiting = new Map(), own = Math.random().toString(36).slice(2);
  let last = 0;
  model.on("msg:custom", answer => {
    const [done, failed] = waiting.get(answer.to) ?? [];
    if (waiting.delete(answer.to)) "error" in answer ? failed(new Error(answer.error)) : done(answer.value);
  });
  const ask = (what, more = {}) => new Promise((done, failed) => {
    const id = `${own}-${++last}`;
    const send = () => model.send({ ask: id, what, with: more });
    waiting.set(id, [done, failed]);
    send();
    // A connection that broke and came back loses what was on its way; the kernel says again what it said.
    const again = setInterval(() => (waiting.has(id) ? send() : clearInterval(again)), 20000);
  });
  return {
    rows: blind => ask("rows", { blind }),
    open: ids => ask("open", { ids }),
    search: text => ask("search", { text }),
    stamp: () => ask("stamp"),
    exportPage: (ids, pair, chosen) => ask("export", { ids, pair, chosen }),
    address: id => `study.view("${id}")`,
    // The page that stands in the output where there is no kernel, has done its work.
    started: data => { document.getElementById(`tv-${data.model_id}`)?.remove(); },
  };
};

/** The source of an exported page, whose data are packed inside of it. */
const pageSource = () => {
  const unpack = async place => {
    const bytes = Uint8Array.from(atob(place.textContent), one => one.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  };
  const parts = [...document.querySelectorAll("script.tv-part")], kept = new Map();
  const part = at => {
    if (!kept.has(at)) kept.set(at, unpack(parts[at]));
    if (kept.size > 8) kept.delete(kept.keys().next().value);
    return kept.get(at);
  };
  const signs = { "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#x27;": "'", "&amp;": "&" };
  const plain = html => html.replace(/<[^>]*>/g, "").replace(/&(?:lt|gt|quot|#x27|amp);/g, sign => signs[sign]).toLowerCase();
  const readTexts = async () => {
    const all = [];
    for (const place of parts) // one after the other: together they would not fit
      for (const html of await unpack(place))
        all.push([...html.matchAll(/<pre[^>]*data-find[^>]*>([^]*?)<\/pre>/g)].map(one => plain(one[1])).join("\n"));
    return all;
  };
  const first = () => decodeURIComponent(location.hash.replace(/^#run-/, "")) || null;
  let data, places, texts;
  return {
    rows: async () => {
      data = await unpack(document.getElementById("tv-data"));
      places = new Map(data.rows.run.map((id, at) => [id, at]));
      document.querySelector("noscript")?.remove();
      return { ...data, pair: places.has(first()) ? null : data.pair };
    },
    open: ids => Promise.all(ids.map(async id => {
      const at = places.get(id);
      return (await part(Math.floor(at / data.part)))[at % data.part];
    })),
    search: async wanted => {
      texts ??= await readTexts();
      const part = wanted.toLowerCase(), ids = at => `${data.rows.run[at]} ${data.rows.prompt[at]} ${data.rows.model[at]}`.toLowerCase();
      return data.rows.run.filter((_, at) => ids(at).includes(part) || texts[at].includes(part));
    },
    address: id => {
      history.replaceState(null, "", `#run-${id}`);
      return "";
    },
    first: () => (places.has(first()) ? first() : data.rows.run[0]),
  };
};

export const startPage = () => viewer(document.querySelector("main"), pageSource());
export default { render: ({ model, el }) => viewer(el, kernelSource(model)) };
