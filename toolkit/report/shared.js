// What all apps share; each is one script, and this stands before it.

/** Make an element; texts inside of it become text and never HTML. */
const h = (tag, attributes = {}, ...inside) => {
  const made = document.createElement(tag);
  // JupyterLab takes single keys for itself, unless the very element that has the focus says so.
  if (attributes.tabindex || ["button", "input", "select", "textarea", "summary"].includes(tag)) made.setAttribute("data-lm-suppress-shortcuts", "true");
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== false && value != null) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...inside);
  return made;
};

/** A function that asks the kernel of a notebook: every question is a message, and has an answer or an error. */
const kernelAsk = model => {
  const waiting = new Map(), own = Math.random().toString(36).slice(2);
  let last = 0;
  model.on("msg:custom", answer => {
    const [done, failed] = waiting.get(answer.to) ?? [];
    if (waiting.delete(answer.to)) "error" in answer ? failed(new Error(answer.error)) : done(answer.value);
  });
  return (what, more = {}) => new Promise((done, failed) => {
    const id = `${own}-${++last}`;
    const send = () => model.send({ ask: id, what, with: more });
    waiting.set(id, [done, failed]);
    send();
    // A connection that broke and came back loses what was on its way; the kernel says again what it said.
    const again = setInterval(() => (waiting.has(id) ? send() : clearInterval(again)), 20000);
  });
};

