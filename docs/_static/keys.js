// Shows the keys of the study file that a reader types a part of: the name, its table, or a word of its sentence.
const input = document.getElementById("find-key");
const tables = [...document.querySelectorAll("article section section")].filter((section) => section.querySelector(":scope > h2"));
const keys = tables.flatMap((table) => [...table.querySelectorAll(":scope > section")]);

function showKeys() {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const key of keys) {
    const text = `${key.parentElement.querySelector("h2").textContent} ${key.textContent}`.toLowerCase();
    key.hidden = !words.every((word) => text.includes(word));
  }
  for (const table of tables) {
    table.hidden = words.length > 0 && !keys.some((key) => key.parentElement === table && !key.hidden);
  }
  const shown = keys.filter((key) => !key.hidden).length;
  document.getElementById("found-keys").value = words.length ? `${shown} of ${keys.length} keys` : "";
}

input.addEventListener("input", showKeys);
showKeys(); // a browser keeps what was typed before the page was loaded anew
