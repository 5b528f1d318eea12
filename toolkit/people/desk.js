// The desk of a rater: one reply after another, blind. It runs in a notebook, where its questions go to the kernel, and
// on a page of this machine. What a model wrote is set as text. A score is refused at the key that makes it none.

const KEYS = "Keys: numbers score, space or ↓ next score, ↑ back, - none; n save and next, s skip, p previous; " +
  "in the reasons Ctrl+Enter saves and Esc returns to the scores.";
const MOST_BUTTONS = 21;

/** The desk in `root`; `ask` asks Python, `many` is whether others may rate here after this one. */
const desk = (root, ask, many) => {
  let study, round, fields = {}, question = "", busy = false;
  const drafts = new Map();
  root.classList.add("dk");
  const status = h("p", { class: "dk-status", role: "status", "aria-live": "polite" });
  const place = h("div");
  root.append(place);

  const say = (text, bad = false) => {
    status.textContent = text;
    status.classList.toggle("dk-bad", bad);
  };
  const button = (words, title, work, more = {}) => h("button", { type: "button", title, onclick: work, ...more }, words);
  const names = () => study.dimensions.map(one => one.name);
  const keyOf = () => `${round.rater}\n${round.reply.run_id}`;
  const saved = name => round.reply.scores[name] ?? "";
  const whole = (name, text) => !text || study.steps.includes(text) || text === saved(name);
  const steps = () => `${study.steps[0]} to ${study.steps.at(-1)} in steps of ${+(study.steps[1] - study.steps[0]).toFixed(9)}`;

  /** Ask, and draw the answer; what is at the desk stays there when it fails. */
  const go = async (what, more, after) => {
    if (busy) return;
    busy = true;
    question = "";
    try {
      round = await ask(what, { rater: round?.rater, ...more });
      busy = false;
      draw();
      say("");
      after?.();
    } catch (error) {
      say(error.message, true);
    }
    busy = false;
  };

  /** Whether something is asked for the second time in a row; the first time, say what it would do. */
  const sure = (what, words) => {
    if (question === what) return true;
    question = what;
    say(words, true);
    return false;
  };

  const keep = () => {
    question = "";
    const scores = Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, field.input.value]));
    const reasons = place.querySelector("textarea").value;
    const same = names().every(name => scores[name] === saved(name)) && reasons === round.reply.reasons;
    if (same) drafts.delete(keyOf());
    else drafts.set(keyOf(), { scores, reasons });
    place.querySelector(".dk-unsaved").hidden = same;
  };

  const save = () => {
    if (!round?.reply) return;
    const scores = {};
    for (const [name, { input, title }] of Object.entries(fields)) {
      if (!whole(name, input.value)) {
        input.focus();
        return say(`${title}: ${JSON.stringify(input.value)} is no score yet; write ${steps()}.`, true);
      }
      if (input.value) scores[name] = input.value;
    }
    const gaps = study.dimensions.filter(one => one.needed && !scores[one.name]).map(one => one.title);
    const warning = `Not scored: ${gaps.join(", ")}. Once more keeps it as unfinished; it does not count then.`;
    if (Object.keys(scores).length && gaps.length && !sure("save", warning)) return;
    const key = keyOf(), number = round.reply.place, reasons = place.querySelector("textarea").value;
    return go("save", { run_id: round.reply.run_id, scores, reasons }, () => {
      drafts.delete(key);
      say(`Reply ${number} is saved.`);
    });
  };
  const skip = () => {
    const before = round.reply?.run_id;
    return go("turn", { run_id: before, back: false }, () => {
      if (before && round.reply?.run_id === before) say("This is the only one left.");
    });
  };
  const back = () => go("turn", { run_id: round.reply?.run_id ?? null, back: true });
  const end = () => {
    const left = round.replies - round.rated;
    if (!left || sure("end", `${left} ${left === 1 ? "reply" : "replies"} will be left out of the round. Press again to end it.`)) go("end", {});
  };
  const discard = () => {
    const lost = round.rated + round.unfinished;
    if (sure("throw", `${lost} ${lost === 1 ? "rating" : "ratings"} will count nowhere any more; they stay in the history. Press again to throw the round away.`))
      go("throw", {}, () => say(many ? "Thrown away. Enter the name again to begin a new round." : "Thrown away. Run the cell again to begin a new round."));
  };

  const rowOf = dimension => {
    const { name, title } = dimension, draft = drafts.get(keyOf())?.scores;
    let last = draft?.[name] ?? saved(name), typed = "";
    const input = h("input", { type: "text", inputmode: "decimal", autocomplete: "off", size: 4, "aria-label": title, placeholder: "–" });
    input.value = last;
    const buttons = study.steps.length > MOST_BUTTONS ? [] : study.steps.map(step => button(step,
      dimension.anchors.find(([score]) => score === step)?.[1] ?? "", () => set(input.value === step ? "" : step),
      { tabindex: "-1", "aria-label": `${title}: ${step}` }));
    const show = () => {
      input.classList.toggle("dk-scored", whole(name, input.value) && input.value !== "");
      buttons.forEach((one, at) => one.setAttribute("aria-pressed", String(study.steps[at] === input.value)));
    };
    const set = value => {
      last = input.value = value;
      typed = "";
      say("");
      show();
      keep();
    };
    input.addEventListener("input", () => {
      const text = input.value.replace(",", ".").trim();
      if ([saved(name), ...study.steps].some(step => step.startsWith(text))) return set(text);
      input.value = last;
      typed = typed ? typed + text.slice(last.length) : text; // 4 . 5 is refused as 4.5, also key by key
      const stays = last ? `; ${last} stays` : "";
      say(`${title}: ${JSON.stringify(typed)} is no score. Write ${steps()}${stays}.`, true);
    });
    input.addEventListener("focus", () => input.select());
    fields[name] = { input, title, set };
    show();
    const anchors = dimension.anchors.map(([score, text]) => h("span", {}, h("b", {}, score), ` ${text} `));
    return h("div", { class: "dk-row", role: "group", "aria-label": title },
      h("div", { class: "dk-line" }, h("b", {}, title), dimension.needed ? "" : h("span", { class: "dk-soft" }, "may stay empty"),
        h("span", { class: "dk-steps" }, input, ...buttons)),
      h("p", { class: "dk-soft" }, dimension.question), ...(anchors.length ? [h("p", { class: "dk-soft dk-anchors" }, ...anchors)] : []));
  };

  const draw = () => {
    fields = {};
    const { reply, rated, unfinished, replies, rater } = round;
    const counts = `${rated} of ${replies} rated${unfinished ? `, ${unfinished} unfinished` : ""}`;
    const head = h("p", { class: "dk-head" }, h("b", {}, reply ? `Reply ${reply.place} of ${replies}` : `The round of ${rater} is finished`),
      ` · ${counts}${reply ? ` · rater ${rater} ` : " "}`, h("b", { class: "dk-unsaved", hidden: true }, "not saved"));
    const bar = h("progress", { max: Math.max(1, replies), value: rated, "aria-label": "Rated" });
    const other = many ? [button("Other rater", "Rate under another name", begin)] : [];
    if (!reply) {
      place.replaceChildren(head, bar, h("p", { class: "dk-tools" }, button("Previous", "To the last reply (p)", back), ...other), status);
      place.querySelector("button").focus();
      return;
    }
    const draft = drafts.get(keyOf());
    const text = (title, words, kind) => [h("b", {}, title), h("pre", { class: `dk-text ${kind} tex2jax_ignore mathjax_ignore`, dir: "auto",
      tabindex: "0", role: "region", "aria-label": title }, words)];
    const reasons = h("textarea", { rows: 2, "aria-label": "Reasons", placeholder: "Why these scores? (optional)", oninput: keep });
    reasons.value = draft?.reasons ?? reply.reasons;
    place.replaceChildren(head, bar,
      h("div", { class: "dk-frame" },
        h("div", { class: "dk-texts" }, ...text("The task", reply.task, "dk-task"), ...text("The reply", reply.text, "dk-reply")),
        h("div", { class: "dk-scores" }, ...study.dimensions.map(rowOf), h("b", {}, "Reasons"), reasons)),
      h("div", { class: "dk-foot" }, status, h("p", { class: "dk-tools" },
        button("Save and next", "Keep these scores, and go on (n)", save, { class: "dk-main" }), button("Skip", "It comes again at the end (s)", skip),
        button("Previous", "To the reply before this one (p)", back), button("End round", "Keep what is rated, and leave the rest", end),
        button("Throw round away", "None of its ratings counts any more", discard), ...other),
      h("p", { class: "dk-soft dk-keys" }, KEYS)));
    place.querySelector(".dk-unsaved").hidden = !draft;
    Object.values(fields)[0].input.focus();
  };

  /** Ask for the name of a rater. */
  const begin = () => {
    const name = h("input", { type: "text", list: "dk-raters", maxlength: 64, required: true, "aria-label": "Your name" });
    const size = h("input", { type: "number", min: 1, "aria-label": "Replies in the round" });
    round = undefined;
    fields = {};
    place.replaceChildren(h("form", { class: "dk-begin", onsubmit: event => {
      event.preventDefault();
      go("open", { rater: name.value, size: size.value ? +size.value : null });
    } }, h("h1", {}, `Rate replies of ${study.study}`),
    h("p", {}, "You see a task and a reply, and neither the model nor any other score. Each rating is saved before the next reply comes. Stop when you like: under the same name the round goes on where it stopped."),
    h("label", {}, "Your name ", name), h("datalist", { id: "dk-raters" }, ...study.raters.map(value => h("option", { value }))),
    h("label", {}, "Replies in the round ", size, h("span", { class: "dk-soft" }, " empty: all, or as before")),
    h("p", { class: "dk-tools" }, h("button", { type: "submit", class: "dk-main" }, "Begin"))), status);
    name.focus();
  };

  root.addEventListener("keydown", event => {
    if (!round || event.altKey || event.metaKey) return;
    const { target, key } = event, inputs = Object.values(fields).map(one => one.input), at = inputs.indexOf(target);
    let work;
    if (target.matches("textarea")) work = { Enter: event.ctrlKey && save, Escape: () => inputs[0].focus() }[key];
    else if (!event.ctrlKey) {
      work = { n: save, s: skip, p: back }[key];
      if (at >= 0) {
        const [name, field] = Object.entries(fields)[at];
        const move = to => () => {
          if (!whole(name, target.value)) return say(`${field.title}: ${JSON.stringify(target.value)} is no score yet; write ${steps()}.`, true);
          (inputs[to] ?? place.querySelector("textarea")).focus();
        };
        const next = move(at + 1), none = () => { field.set(""); next(); };
        work ??= { " ": next, ArrowDown: next, Enter: at + 1 < inputs.length ? next : save, ArrowUp: at && move(at - 1),
          "-": !study.steps.some(step => step.startsWith("-")) && none }[key];
      } else if (/^[0-9]$/.test(key) && inputs.length && !target.matches("input")) {
        work = () => {
          const free = inputs.find(input => !input.value) ?? inputs[0];
          free.focus();
          free.value = key;
          free.dispatchEvent(new Event("input"));
        };
      }
    }
    if (!work) return;
    event.preventDefault();
    work();
  });
  if (many) addEventListener("beforeunload", event => drafts.size && event.preventDefault());

  ask("start").then(answer => {
    study = answer;
    round = answer.round;
    round ? draw() : begin();
  }, error => { place.replaceChildren(status); say(error.message, true); });
};

/** Ask the server of the page, whose address holds the token. */
const pageAsk = async (what, more = {}) => {
  let answer;
  try {
    const reply = await fetch("", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ what, with: more }) });
    if (!reply.ok) throw new Error(await reply.text());
    answer = await reply.json();
  } catch (error) {
    throw new Error(`Not done: the desk does not answer (${error.message}). What it had acknowledged is saved, and what you typed is still here; is \`toolkit ratings desk\` running?`);
  }
  if ("error" in answer) throw new Error(answer.error);
  return answer.value;
};

export const startPage = () => desk(document.querySelector("main"), pageAsk, true);
export default { render: ({ model, el }) => desk(el, kernelAsk(model), false) };
