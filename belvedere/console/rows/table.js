// Rows as a table whose heads sort. In: columns, rows, the order. Out: an element. `below` makes what a row shows when it is opened.

import { make, scrolling } from "../dom.js";
import { isNumber, textOf } from "../numbers.js";
import { NUMBERS } from "../schema.js";

export function rowsTable({ title, columns, rows, order, sort, below }) {
  const heads = columns.map((c) => head(c, order, sort));
  const body = rows.map((row) => line(row, columns, below)).flat();
  if (!rows.length) body.push(make("tr", {}, make("td", { colspan: columns.length + (below ? 1 : 0) || 1, class: "empty", text: "No rows." })));
  const opener = below && make("td", { class: "opener" });
  return scrolling(`Rows of ${title}`, make("table", { class: "rows" }, make("thead", {}, make("tr", {}, opener, heads)), make("tbody", {}, body)));
}

function head(column, order, sort) {
  const chosen = order?.column === column.name;
  const number = NUMBERS.has(column.type) ? "number" : undefined;
  const type = make("span", { class: "type", text: column.written });
  if (!sort) return make("th", { scope: "col", class: number, title: column.doc }, column.name, type);
  const arrow = make("span", { class: "arrow", "aria-hidden": "true", text: chosen ? (order.descending ? "↓" : "↑") : "" });
  const button = make("button", { type: "button", title: column.doc, onclick: () => sort(column.name) }, make("span", { text: column.name }), arrow);
  return make("th", { scope: "col", class: number, "aria-sort": chosen ? (order.descending ? "descending" : "ascending") : undefined }, button, type);
}

function line(row, columns, below) {
  const cells = columns.map((c) => valueCell(row[c.name]));
  if (!below) return [make("tr", {}, cells)];
  const opened = make("tr", { hidden: true }, make("td", { colspan: columns.length + 1, class: "related" }));
  const button = make("button", { type: "button", class: "plain", "aria-expanded": "false", "aria-label": "More of this row", text: "▸" });
  button.addEventListener("click", async () => {
    const open = opened.hidden;
    opened.hidden = !open;
    button.textContent = open ? "▾" : "▸";
    button.setAttribute("aria-expanded", String(open));
    if (open) opened.firstChild.replaceChildren(await below(row));
  });
  return [make("tr", {}, make("td", { class: "opener" }, button), cells), opened];
}

export function valueCell(value) {
  if (value === null || value === undefined) return make("td", { class: "null", text: "NULL" });
  if (value === "") return make("td", { class: "null", text: "empty text" });
  const text = textOf(value);
  const kind = isNumber(value) ? "number" : /^\d{4}-\d\d-\d\d/.test(text) && text.length < 36 ? "time" : undefined;
  return make("td", { class: kind, title: text.length > 80 ? text : undefined, text });
}
