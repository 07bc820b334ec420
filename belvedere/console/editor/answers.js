// Answers of the API. In: results, one or one after another. Out: an element that shows them as JSON or as tables, with what was wrong.

import { make, scrolling } from "../dom.js";
import { valueCell } from "../rows/table.js";
import { isExact } from "../numbers.js";

const MOST = 100; // events that are shown

export function answerPanel(viewer) {
  const errors = make("div", { class: "errors" }), tables = make("div", { class: "tables", hidden: true });
  let shown = [];
  const choose = (asTable) => () => {
    viewer.element.hidden = asTable;
    tables.hidden = !asTable;
    json.setAttribute("aria-pressed", String(!asTable));
    table.setAttribute("aria-pressed", String(asTable));
    if (asTable) fill();
  };
  const json = make("button", { type: "button", text: "JSON", "aria-pressed": "true", onclick: choose(false) });
  const table = make("button", { type: "button", text: "Table", "aria-pressed": "false", onclick: choose(true) });
  const copy = make("button", { type: "button", text: "Copy", onclick: () => navigator.clipboard?.writeText(viewer.text()) });
  const element = make("section", { class: "answer", "aria-label": "Answer" }, make("div", { class: "bar" }, json, table, make("span", { class: "grow" }), copy), errors, viewer.element, tables);

  function put(results) {
    shown = results;
    viewer.put(results.map((r) => JSON.stringify(r.data ?? null, null, 2)).join("\n"));
    errors.replaceChildren(...(results[0]?.errors ?? []).map(problem));
    if (!tables.hidden) fill();
  }

  function fill() {
    const first = shown[0]?.data ?? {};
    const merged = shown.length > 1 ? Object.fromEntries(Object.keys(first).map((name) => [name, shown.flatMap((r) => r.data?.[name] ?? [])])) : first;
    tables.replaceChildren(...Object.entries(merged).map(([name, value]) => make("section", {}, make("h3", { text: name }), scrolling(name, nested(value)))));
  }

  return { element, show: (result) => put([result]), begin: () => put([]), add: (result) => put([result, ...shown].slice(0, MOST)) };
}

function problem(error) {
  const at = error.locations?.[0];
  return make("div", { class: "problem", role: "alert" },
    make("p", { text: `${error.message}${at ? ` (line ${at.line}, column ${at.column})` : ""}` }),
    error.extensions?.hint && make("p", { class: "hint", text: error.extensions.hint }));
}

function nested(value) {
  const list = Array.isArray(value) ? value : value?.nodes ?? [value];
  const rows = list.filter((r) => r && typeof r === "object" && !isExact(r));
  if (!rows.length) return make("table", {}, make("tbody", {}, list.map((v) => make("tr", {}, valueCell(v)))));
  const columns = [...new Set(rows.flatMap((r) => Object.keys(r)))];
  return make("table", {}, make("thead", {}, make("tr", {}, columns.map((c) => make("th", { scope: "col", text: c })))), make("tbody", {}, rows.map((r) => make("tr", {}, columns.map((c) => cell(r[c]))))));
}

function cell(value) {
  const rows = (Array.isArray(value) ? value : [value]).filter((r) => r && typeof r === "object" && !Array.isArray(r) && !isExact(r));
  return rows.length ? make("td", {}, nested(value)) : valueCell(value);
}
