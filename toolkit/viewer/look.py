"""How the viewer looks in a notebook and on a page, and the one small script of the page."""

from __future__ import annotations

from typing import Final

IGNORED_BY_MATHJAX: Final = "tex2jax_ignore mathjax_ignore"
"""Classes of everything that holds text of models: a dollar sign in it is a dollar sign."""

# Colours are those of JupyterLab where there are any, so that a dark theme stays dark.
STYLE: Final = """
.tv { --ink: var(--jp-ui-font-color1, #1a1a1a); --soft: var(--jp-ui-font-color2, #555);
  --line: var(--jp-border-color1, #bbb); --ground: var(--jp-layout-color1, #fff);
  --band: var(--jp-layout-color2, #f2f2f2); --mark: #ffe9a8;
  color: var(--ink); background: var(--ground); line-height: 1.45; font-size: 14px;
  font-family: var(--jp-content-font-family, system-ui, "Helvetica Neue", Arial, sans-serif); }
.tv h2 { font-size: 1.15em; margin: 0.9em 0 0.3em; overflow-wrap: anywhere; }
.tv h3 { font-size: 1em; margin: 0.9em 0 0.3em; }
.tv h4, .tv h5, .tv h6 { font-size: 1em; margin: 0.8em 0 0.2em; }
.tv p { margin: 0.4em 0; }
.tv ul, .tv ol { margin: 0.3em 0; padding-left: 1.8em; }
.tv table { border-collapse: collapse; font-size: 0.93em; margin: 0.3em 0; }
.tv th, .tv td { border-bottom: 1px solid var(--line); padding: 0.15em 0.7em 0.15em 0; text-align: left;
  vertical-align: top; white-space: normal; overflow-wrap: anywhere; }
.tv th { font-weight: 600; }
.tv th[scope=row] { font-weight: inherit; }
.tv td.tv-number, .tv th.tv-number { text-align: right; white-space: nowrap;
  font-variant-numeric: tabular-nums; }
.tv mark { background: var(--mark); color: #1a1a1a; padding: 0 1px; }
.tv-differs del { background: #f6cfc4; color: #1a1a1a; text-decoration: none; }
.tv-differs ins { background: #cfe3f5; color: #1a1a1a; text-decoration: none; }
.tv code { font-size: 0.92em; overflow-wrap: anywhere; }
.tv pre { white-space: pre-wrap; word-break: normal; overflow-wrap: anywhere; margin: 0.2em 0; font-size: 0.9em;
  line-height: 1.4; background: none; color: inherit; }
.tv .tv-text { border: 1px solid var(--line); border-radius: 3px; padding: 0.4em 0.8em; margin: 0.2em 0 0.6em;
  max-height: 30em; overflow: auto; overflow-wrap: anywhere; }
.tv pre, .tv .tv-text, .tv .tv-text :is(p, h4, h5, h6, th, td) { unicode-bidi: plaintext; text-align: start; }
.tv .tv-text pre { background: var(--band); padding: 0.4em 0.6em; }
.tv pre.tv-text, .tv .tv-text > pre:only-child { background: none; padding: 0.4em 0.8em; }
.tv .tv-text blockquote { border-left: 3px solid var(--line); margin: 0.3em 0; padding-left: 0.8em; }
.tv details { margin: 0.3em 0; }
.tv summary { cursor: pointer; font-weight: 600; }
.tv-facts { display: flex; flex-wrap: wrap; gap: 0.1em 1.6em; }
.tv-facts span { white-space: nowrap; }
.tv-soft { color: var(--soft); }
.tv-bad { border-left: 4px solid #d55e00; padding: 0.2em 0.8em; overflow-wrap: anywhere; }
.tv-said { border-left: 3px solid var(--line); padding-left: 0.8em; margin: 0.7em 0; }
.tv-two { display: grid; grid-template-columns: 1fr 1fr; gap: 0 1.2em; }
.tv-two > * { min-width: 0; }
"""

TABLE_STYLE: Final = """
.tv-runs table { width: 100%; table-layout: fixed; margin: 0; }
.tv-runs tr { height: 30px; }
.tv-runs th, .tv-runs td { padding: 0 0.6em 0 0.2em; height: 30px; white-space: nowrap; overflow: hidden;
  text-overflow: ellipsis; vertical-align: middle; box-sizing: border-box; }
.tv-runs th, .tv.tv-runs th.tv-number { white-space: normal; line-height: 1.1; overflow-wrap: normal; }
.tv-runs tr.tv-open td { background: var(--mark); color: #1a1a1a; }
.tv-runs tr.tv-held td { background: #cfe3f5; color: #1a1a1a; }
"""
"""Of the table in a notebook, whose rows are exactly as high as the buttons beside them."""

PAGE_STYLE: Final = """
body { margin: 0; }
main.tv { max-width: 60em; margin: 0 auto; padding: 1em 1.5em 4em; }
.tv h1 { font-size: 1.4em; }
.tv nav table { width: 100%; }
.tv nav th { white-space: nowrap; }
.tv-run { border-top: 2px solid var(--line); margin-top: 1.6em; scroll-margin-top: 0.5em; }
.tv-run:target, .tv-run:focus { outline: none; border-top-color: #0072b2; }
.tv a { color: #0072b2; }
.tv [hidden] { display: none; }
.tv-beside main.tv { max-width: none; }
.tv-beside .tv-others { display: none; }
.tv-beside #tv-runs { display: grid; grid-template-columns: 1fr 1fr; gap: 0 1.5em; }
.tv-beside #tv-runs > * { min-width: 0; }
@media print {
  main.tv { max-width: none; padding: 0; }
  .tv .tv-text { max-height: none; overflow: visible; }
  .tv-find { display: none; }
  .tv nav table { font-size: 0.7em; }
  .tv tr { break-inside: avoid; }
  .tv h2, .tv h3, .tv summary { break-after: avoid; }
  .tv mark, .tv-differs del, .tv-differs ins { print-color-adjust: exact; }
}
"""

SCRIPT: Final = """
(() => {
  const runs = [...document.querySelectorAll("article.tv-run")];
  const find = document.getElementById("tv-find");
  const count = document.getElementById("tv-count");
  const words = new Map();
  let held = null;
  document.querySelector(".tv-find").hidden = false;
  find.addEventListener("input", () => {
    const wanted = find.value.toLowerCase();
    let left = 0;
    for (const run of runs) {
      if (!words.has(run)) words.set(run, run.textContent.toLowerCase());
      const there = words.get(run).includes(wanted);
      run.hidden = document.getElementById("row-" + run.id).hidden = !there;
      left += there;
    }
    count.textContent = left + " of " + runs.length + " runs";
  });
  const now = () => runs.find(run => "#" + run.id === location.hash && !run.hidden) || null;
  const go = step => {
    const shown = runs.filter(run => !run.hidden && run !== held);
    const at = shown.indexOf(now());
    const next = at < 0 ? shown[0] : shown[at + step];
    if (next) location.hash = next.id;
  };
  const beside = () => {
    const both = new Set([held, now()]);
    document.body.classList.toggle("tv-beside", held !== null && both.size === 2);
    for (const run of runs) run.classList.toggle("tv-others", !both.has(run));
  };
  addEventListener("hashchange", beside);
  document.addEventListener("keydown", event => {
    if (event.key === "Escape" && event.target === find) find.blur();
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.matches("input")) return;
    if (event.key === "n") go(1);
    else if (event.key === "p") go(-1);
    else if (event.key === "c") { held = held ? null : now(); beside(); }
    else if (event.key === "/") find.focus();
    else return;
    event.preventDefault();
  });
})();
"""
"""Filter and keys of the page, which is whole without it."""
