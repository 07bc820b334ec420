// Makes elements. In: a tag, attributes, children. Out: an element. Texts stay texts: nothing here reads markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "text") element.textContent = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(element.dataset, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return element;
}

export const make = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
export const draw = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

let last = 0;
export const newId = (what) => `${what}-${++last}`;

/** A label with its control below it. */
export function labelled(text, control, hint) {
  control.id ||= newId("control");
  const label = make("label", { for: control.id, text });
  if (!hint) return make("div", { class: "field" }, label, control);
  const told = make("p", { class: "hint", id: newId("hint"), text: hint });
  control.setAttribute("aria-describedby", told.id);
  return make("div", { class: "field" }, label, control, told);
}

export const select = (options, chosen, attributes = {}) =>
  make("select", attributes, ...options.map(([value, text]) => make("option", { value, text: text ?? value, selected: value === chosen })));

/** A table that scrolls by itself where it is wider than the page. */
export function scrolling(label, table) {
  return make("div", { class: "scrolling", tabindex: "0", role: "region", "aria-label": label }, table);
}

export function errorBox(error) {
  return make("div", { class: "problem", role: "alert" }, make("p", { text: error.message }), error.hint && make("p", { class: "hint", text: error.hint }));
}

/** Puts rows into a table's body; cells that say the same stay, so that nobody loses their place. */
export function refresh(body, rows) {
  const same = body.children.length === rows.length && rows.every((row, n) => row.children.length === body.children[n].children.length);
  if (!same) return body.replaceChildren(...rows);
  rows.forEach((row, n) => [...row.children].forEach((cell, place) => {
    const old = body.children[n].children[place];
    if (!old.isEqualNode(cell)) old.replaceWith(cell.cloneNode(true));
  }));
}
