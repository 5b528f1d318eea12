// The viewer of answers: one app, in a notebook (anywidget asks its kernel) and on an exported page (the data are inside).
// Whatever comes from a model is text: it is set as text here, or has passed the sanitiser of the Python side.

const DASH = "–";
// Name in the data, head, kind (digits for a number, else how it is filtered), and what the head means.
const STANDARD = [
  ["prompt", "prompt", "text", "part of the prompt's id; in quotes: the whole id"],
  ["scenario", "scenario", "choice", ""],
  ["model", "model", "choice", ""],
  ["repeat", "rep.", 0, "which repeat of the same prompt"],
  ["level", "level", "choice", ""],
  ["state", "status", "choice", "failed, why the reply is left out, or whether it is judged"],
  ["composite", "composite", 2, "composite of a judge's scores (by the default rubric the mean of those above 0), averaged over the judges"],
  ["strict", "strict", 2, "composite that counts the zeros too, averaged over the judges"],
  ["sd", "SD", 2, "standard deviation of the judges' composites: where it is large, read"],
  ["people", "people", 2, "mean composite of those who rated; no part of the other numbers"],
  ["aud", "AUD", 4, "cost of the reply, without the judges"],
  ["tokens", "tokens", 0, "of the reply"],
  ["s", "s", 1, "seconds until the reply was there"],
  ["thumb", "thumb", "choice", "your thumb"],
  ["note", "note", "text", "part of your note"],
];
const CONDITION = "numbers like >=3, <2, 2-4, 3.5; none for missing, any for not missing";
const KEYS = "Keys: ↓ ↑ (or n p) next and previous run, c compare, m matrix or table, + − thumbs, / find, e export page, Esc back to the table.";
const ROW = 28; // pixels, as in app.css
const READING = "Pick a run: a click, or the arrow keys.";
const THUMBS = { good: "👍 good", bad: "👎 bad" }; // in words too: not every machine has the pictures

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

/** What this browser keeps for its reader, by name; nothing where it keeps nothing. */
const local = {
  read: name => {
    try { return JSON.parse(localStorage.getItem(name)) ?? {}; } catch { return {}; }
  },
  write: (name, value) => {
    try { localStorage.setItem(name, JSON.stringify(value)); return true; } catch { return false; }
  },
};

/** A table as CSV, of which no cell is a formula (as `toolkit.files.tables.guard`). */
export const csvOf = lines => lines.map(line => line.map(cell => {
  const text = String(cell ?? ""), safe = /^[=+\-@\t\r\n\0＝＋－＠']/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}).join(",") + "\r\n").join("");

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
  let matrix = null, asked = 0, pause = 0, ended = false;
  let columns = STANDARD, notes = {}, off = {}, measure = null, order = { key: "range", down: true };
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
  const overview = button("Matrix", "Levels and models beside each other, a row for each item (m)", () => turn());
  const choices = h("div", { class: "tv-choices" });
  const chooser = h("details", { class: "tv-choose" }, h("summary", {}, "Columns"), choices);
  const download = button("Download notes", "Thumbs and notes of this study as CSV", () => saveNotes());
  download.hidden = true;
  const blind = h("input", { type: "checkbox", checked: true, onchange: () => load(true) }), blindWords = h("span");
  const blindLabel = h("label", { hidden: true, title: UNTICK }, blind, blindWords);
  const tools = h("div", { class: "tv-tools" },
    button("Previous", "The run before this one (p)", () => step(-1)), button("Next", "The run after this one (n)", () => step(1)),
    compare, overview, chooser, find);
  if (source.exportPage) tools.append(button("Export page", "All runs of the filter as one HTML page (e)", () => exportPage()));
  tools.append(download, blindLabel);
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
    columns = [...STANDARD.map(one => (one[0] === "level" ? ["level", data.factor, "choice", ""] : one)),
      ...data.dimensions.map(one => [one, one.replaceAll("_", " "), 2, "mean of the judges"])];
    off = { ...Object.fromEntries(data.dimensions.map(one => [one, true])), ...local.read(`toolkit-columns:${data.name}`) };
    measure ??= data.score === "composite" ? "composite" : "strict";
    takeNotes();
    if (matrix === null) {
      const places = new Set(rows.run.map((_, at) => columnOf(at)));
      matrix = false;
      if (places.size > 1 && rows[measure].some(one => one != null)) turn(true);
    }
    const chosen = data.chosen ? ` Chosen: ${data.chosen}.` : "", hidden = data.hidden ?? { runs: 0 };
    titleLine.textContent = `${data.warning} Study ${data.name}, dataset ${data.dataset}. ${data.note}${chosen}`;
    blindLabel.hidden = !hidden.runs && blind.checked;
    if (hidden.runs)
      blindWords.textContent = ` Hide the scores of ${hidden.runs} runs that are being rated blind, by ${hidden.raters.join(", ")}`;
    drawHeads();
    choose();
    if (again === true && open) await read(open);
  });

  const before = (name, one, other) =>
    name === "level" ? data.levels.indexOf(one) - data.levels.indexOf(other)
    : typeof one === "string" ? compared(one, other) : one - other;
  const columnOf = at => `${rows.model[at]}\n${rows.level[at] ?? ""}`;

  /** Thumbs and notes stay in this browser, by study and run. */
  const noteKey = () => `toolkit-notes:${data.name}`;
  const takeNotes = () => {
    notes = { ...notes, ...local.read(noteKey()) };
    const of = (field, id) => notes[id]?.[field] || null;
    rows.thumb = rows.run.map(id => of("thumb", id));
    rows.note = rows.run.map(id => of("note", id));
    download.hidden = !Object.values(notes).some(one => one.thumb || one.note);
  };
  const putNote = (id, change) => {
    takeNotes(); // another window may have added some
    notes[id] = { ...notes[id], ...change };
    if (!local.write(noteKey(), notes)) say("This browser keeps no notes after the page is closed: download them.");
    takeNotes();
    clearTimeout(putNote.later); // not at once: a click that ends the typing would find its row gone
    putNote.later = setTimeout(() => {
      if (matrix && !wanted.thumb && !wanted.note) return;
      drawHeads();
      choose();
    }, 400);
  };
  const thumb = (id, name) => putNote(id, { thumb: notes[id]?.thumb === name ? "" : name });
  const saveNotes = () => {
    const lines = rows.run.flatMap((id, at) => (rows.thumb[at] || rows.note[at]
      ? [[id, rows.prompt[at], rows.model[at], rows.level[at], rows.repeat[at], rows.thumb[at], rows.note[at]]] : []));
    const text = csvOf([["run_id", "prompt_id", "model", "level", "repeat", "thumb", "note"], ...lines]);
    const address = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    h("a", { href: address, download: `notes-${data.name}.csv` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
    say(`${number(lines.length, 0)} answers with a thumb or a note.`);
  };

  /** Thumbs, a note and a link for a run that is open. */
  const noteBar = id => {
    const thumbs = Object.entries(THUMBS).map(([name, words]) => [name, button(words, `A ${name} answer (${name === "good" ? "+" : "−"})`, () => { thumb(id, name); show(); })]);
    const show = () => thumbs.forEach(([name, one]) => one.setAttribute("aria-pressed", String(notes[id]?.thumb === name)));
    const note = h("textarea", { rows: 1, "aria-label": "Your note", placeholder: "Your note; it stays in this browser", oninput: event => putNote(id, { note: event.target.value.trim() }) });
    note.value = notes[id]?.note ?? "";
    show();
    const link = source.link ? [button("Copy link", "The address of this page with this answer open", async () => {
      const address = source.link(id);
      try { await navigator.clipboard.writeText(address); say("The link is copied."); } catch { say(address); }
    })] : [];
    return Object.assign(h("div", { class: "tv-note" }, ...thumbs.map(([, one]) => one), note, ...link), { show });
  };

  /** Boxes for the columns of what is seen: the table, or the matrix. */
  const drawChoices = (names, redraw) => choices.replaceChildren(...names.map(([key, words]) => h("label", {}, h("input", {
    type: "checkbox", checked: !off[key], onchange: event => {
      off = { ...off, [key]: !event.target.checked };
      local.write(`toolkit-columns:${data.name}`, off);
      list.classList.add("tv-chosen");
      redraw();
    },
  }), ` ${words}`)));

  const place = (key, kind) => `tv-c-${key}${kind >= 0 ? " tv-number" : ""}`;

  const drawHeads = () => {
    const told = ([key]) => new Set(rows[key]).size > (["scenario", "level"].includes(key) ? 1 : 0) && rows[key].some(one => one != null);
    const present = columns.filter(told), there = present.filter(([key]) => !off[key]);
    if (!matrix) drawChoices(present, () => { drawHeads(); choose(); });
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
    for (const [key, head, kind] of columns) {
      const text = (wanted[key] ?? "").trim(), column = rows[key], exact = text.match(/^"(.*)"$/)?.[1], part = text.toLowerCase();
      const holds = kind >= 0 ? condition(text, kind) : kind === "choice" ? value => value === text
        : exact ? value => value === exact : value => (value ?? "").toLowerCase().includes(part);
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
    const drawn = columns.filter(([key]) => heads.querySelector(`.tv-c-${key}`));
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
        ...drawn.map(column => cell(at, column)));
    };
    body.replaceChildren(room(first * ROW), ...found.slice(first, last).map(line), room((found.length - last) * ROW));
  };

  const read = guarded(async id => {
    open = id;
    const at = rows.run.indexOf(id), where = found.indexOf(at), top = where * ROW, high = heads.parentElement.offsetHeight;
    if (where >= 0 && top < list.scrollTop) list.scrollTop = top;
    else if (where >= 0) list.scrollTop = Math.max(list.scrollTop, top + ROW + high - list.clientHeight);
    if (matrix) showOpen();
    else draw();
    const mine = ++asked, both = held && held !== id;
    const ids = both ? [held, id] : [id], absent = ids.filter(one => !opened.has(one));
    const got = absent.length ? await source.open(absent) : [];
    absent.forEach((one, place) => opened.set(one, got[place]));
    const html = ids.map(one => opened.get(one));
    while (opened.size > 20) opened.delete(opened.keys().next().value);
    if (mine !== asked) return; // a newer one is on its way
    const drawn = html.map((one, side) => {
      const article = h("article", { class: "tv-run" });
      article.innerHTML = one; // sanitised in Python
      article.prepend(noteBar(ids[side]));
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

  const turn = first => {
    matrix = !matrix;
    overview.textContent = matrix ? "Table" : "Matrix";
    root.querySelector(".tv-frame").classList.toggle("tv-wide", matrix);
    list.hidden = matrix;
    overviewPlace.hidden = !matrix;
    if (first === true) return;
    drawHeads();
    choose();
  };

  const meanOf = values => (values.length ? values.reduce((sum, one) => sum + one) / values.length : null);
  const showOpen = () => overviewPlace.querySelectorAll("td[data-runs]").forEach(cell =>
    cell.classList.toggle("tv-open", cell.dataset.runs.split(" ").some(id => id === open || id === held)));

  /** A row for each item, a column for each model and level, over the runs of the filter; where columns differ most comes first. */
  const drawMatrix = () => {
    const items = new Map(), tops = new Map();
    for (const at of found) {
      const item = rows.base[at] ?? rows.prompt[at], key = columnOf(at);
      tops.set(key, [rows.model[at], rows.level[at] ?? ""]);
      if (!items.has(item)) items.set(item, new Map());
      const cells = items.get(item);
      if (!cells.has(key)) cells.set(key, { runs: [], scores: [] });
      cells.get(key).runs.push(at);
      if (rows[measure][at] != null) cells.get(key).scores.push(rows[measure][at]);
    }
    const all = [...tops].sort(([, one], [, other]) => compared(one[0], other[0]) || before("level", one[1], other[1]));
    drawChoices(all.map(([key, parts]) => [key, parts.filter(Boolean).join(" · ")]), drawMatrix);
    const across = all.filter(([key]) => !off[key]);
    const lines = [...items].map(([item, cells]) => {
      for (const cell of cells.values()) cell.mean = meanOf(cell.scores);
      const seen = across.map(([key]) => [cells.get(key), cells.get(key)?.mean]).filter(([, mean]) => mean != null).sort((one, other) => one[1] - other[1]);
      return { item, cells, low: seen[0]?.[0], high: seen.at(-1)?.[0], range: seen.length > 1 ? seen.at(-1)[1] - seen[0][1] : null };
    });
    const valueOf = line => (order.key === "item" ? line.item : order.key === "range" ? line.range : line.cells.get(order.key)?.mean) ?? null;
    lines.sort((one, other) => {
      const [left, right] = [valueOf(one), valueOf(other)];
      if (left == null || right == null) return (left == null) - (right == null);
      return (order.down ? -1 : 1) * before("", left, right) || compared(one.item, other.item);
    });
    const [low, high] = data.ends, heat = mean => Math.round((55 * (mean - low)) / (high - low));
    const head = (key, words, title, more = {}) => {
      const way = order.key !== key ? "none" : order.down ? "descending" : "ascending";
      const press = h("button", { type: "button", title: `Sort by ${title}`, onclick: () => {
        order = { key, down: order.key === key ? !order.down : key !== "item" };
        drawMatrix();
        overviewPlace.querySelector(`[aria-sort]:not([aria-sort=none]) button`)?.focus();
      } }, words + { ascending: " ▲", descending: " ▼", none: "" }[way]);
      return h("th", { scope: "col", "aria-sort": way, ...more }, press);
    };
    const square = (line, [key, [model, level]]) => {
      const cell = line.cells.get(key);
      if (!cell) return h("td", { title: "no run" });
      const { mean, scores, runs } = cell;
      const title = `${line.item}, ${model}${level ? ` ${level}` : ""}: ${number(mean, 2)}, ${scores.length} of ${runs.length} runs with a score`;
      const press = h("button", { type: "button", title, "aria-label": title, onclick: () => {
        const next = (runs.findIndex(at => rows.run[at] === open) + 1) % runs.length; // each click opens the next repeat
        read(rows.run[runs[next]]);
      } }, number(mean, 2));
      return h("td", { class: "tv-number", style: `--heat: ${mean == null ? 0 : heat(mean)}%`, "data-runs": runs.map(at => rows.run[at]).join(" ") }, press);
    };
    const both = ({ low: left, high: right }) => {
      if (!left || left === right) return;
      held = rows.run[left.runs[0]];
      read(rows.run[right.runs[0]]);
    };
    const means = across.map(([key]) => {
      const values = lines.map(line => line.cells.get(key)?.mean).filter(mean => mean != null), mean = meanOf(values);
      return h("td", { class: "tv-number", title: `mean of ${values.length} items`, style: `--heat: ${mean == null ? 0 : heat(mean)}%` }, h("b", {}, number(mean, 2)));
    });
    const measures = [["strict", "composite, strict"], ["composite", "composite"], ...data.dimensions.map(one => [one, one.replaceAll("_", " ")]), ["people", "people"]];
    const select = h("select", { "aria-label": "Score", onchange: event => { measure = event.target.value; drawMatrix(); } },
      ...measures.filter(([key]) => rows[key].some(one => one != null)).map(([value, words]) => h("option", { value, selected: value === measure }, words)));
    const legend = h("p", { class: "tv-soft tv-legend" }, "Mean of ", select, ` ${low} `, h("span", { role: "img",
      "aria-label": "from pale to blue", style: `--heat: ${heat(high)}%` }), ` ${high}. ${DASH}: no run with a score; empty: no run. `,
    "A click on a number opens its runs in turn, on an item its lowest and highest side by side.");
    const wide = Map.groupBy(across, ([, [model]]) => model), top = overviewPlace.scrollTop;
    overviewPlace.replaceChildren(legend, h("table", { "aria-label": "Items by level and model" }, h("thead", {},
      h("tr", {}, h("th"), h("th"), ...[...wide].map(([model, some]) => h("th", { colspan: some.length, scope: "colgroup", title: model }, model))),
      h("tr", {}, head("item", "item", "item"), head("range", "range", "highest less lowest number of the row", { class: "tv-number" }),
        ...across.map(([key, [model, level]]) => head(key, level || "mean", `${model}${level ? ` ${level}` : ""}`, { class: "tv-number" }))),
      h("tr", { class: "tv-means" }, h("th", { scope: "row" }, `mean of ${number(lines.length, 0)} items`), h("td"), ...means)),
    h("tbody", {}, ...lines.map(line => h("tr", {},
      h("th", { scope: "row" }, h("button", { type: "button", title: line.item, onclick: () => both(line) }, middle(line.item))),
      h("td", { class: "tv-number" }, number(line.range, 2)), ...across.map(column => square(line, column)))))));
    overviewPlace.scrollTop = top;
    showOpen();
  };

  const mark = name => {
    if (!open) return say("Open a run first.");
    thumb(open, name);
    reading.querySelectorAll(".tv-note").forEach(bar => bar.show());
  };
  root.addEventListener("click", event => { if (!chooser.contains(event.target)) chooser.open = false; });
  root.addEventListener("keydown", event => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "Escape") return (matrix ? overviewPlace : list).focus();
    if (event.target.matches("input, select, textarea")) return; // they take letters
    const arrows = event.target === list || event.target.closest(".tv-tools"); // elsewhere they scroll
    const work = { n: () => step(1), p: () => step(-1), c: hold, m: turn, "/": () => find.focus(),
      "+": () => mark("good"), "-": () => mark("bad"), ...(source.exportPage ? { e: exportPage } : {}), ...(arrows ? { ArrowDown: () => step(1), ArrowUp: () => step(-1) } : {}) }[event.key];
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
  source.follow?.(id => { if (data && id !== open) read(id); });
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
  const ask = kernelAsk(model);
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
    link: id => new URL(`#run-${id}`, location.href).href,
    follow: work => addEventListener("hashchange", () => places?.has(first()) && work(first())),
    first: () => (places.has(first()) ? first() : data.rows.run[0]),
  };
};

export const startPage = () => viewer(document.querySelector("main"), pageSource());
export default { render: ({ model, el }) => viewer(el, kernelSource(model)) };
