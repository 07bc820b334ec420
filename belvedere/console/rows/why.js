// Where a row comes from: the rows that it was made of, relation by relation, each to be opened in turn. In: an endpoint with a key, a row.

import * as addresses from "../addresses.js";
import { getJson } from "../api.js";
import { errorBox, make } from "../dom.js";
import { textOf, time } from "../numbers.js";
import { code } from "./definition.js";
import { rowsTable } from "./table.js";

const keyOf = (endpoint) => (endpoint.byKey?.args ?? []).filter((a) => a.name !== "asOf").map((a) => a.name);

/** Whether rows of it have addresses. */
export const hasWhy = (endpoint) => keyOf(endpoint).length > 0 && keyOf(endpoint).every((name) => endpoint.columns.some((c) => c.name === name));

const quoted = (value) => `"${textOf(value).replace(/["\\]/g, "\\$&")}"`;
const isNamed = (endpoint, row) => keyOf(endpoint).every((name) => row[name] !== null && row[name] !== undefined);
const addressOf = (endpoint, row) => `rest/${encodeURIComponent(endpoint.name)}/${encodeURIComponent(keyOf(endpoint).map((name) => quoted(row[name])).join(","))}/why`;

export const rowsText = (count) => `${count.toLocaleString("en")} ${count === 1 ? "row" : "rows"}`;

/** A button that is replaced by the answer. `byName` finds endpoints by the names of their views. */
export function whyOf(endpoint, byName, row) {
  if (!isNamed(endpoint, row)) return make("p", { class: "quiet", text: "A row whose key has a NULL has no address, by which to ask where it comes from." });
  const box = make("div", { class: "why" });
  box.append(make("button", { type: "button", text: "Why is this row here?", onclick: async () => box.replaceChildren(await answer(endpoint, byName, row)) }));
  return box;
}

async function answer(endpoint, byName, row) {
  try {
    const found = await getJson(addressOf(endpoint, row));
    const parts = [...found.reads.map((r) => part(r, "", byName)), ...found.dropped.map((r) => part(r, "not counted: ", byName)), ...found.late.map((r) => part(r, "late: ", byName))];
    return make("div", {}, found.since && sinceOf(found.since, endpoint, byName), found.sql && code(`SQL of ${found.view}`, found.sql),
      parts.length ? parts : make("p", { class: "quiet", text: found.sql ? "It was made of no rows that are there." : "It is a row of an input: it arrived." }), inAll(found));
  } catch (error) {
    return errorBox(error);
  }
}

/** Since when the row is there; each version opens to the rows that made it. */
function sinceOf({ words, versions, count, made_by, unknown }, endpoint, byName) {
  const madeOf = (reads) => (reads.length ? reads.map((r) => part(r, "", byName)) : [make("p", { class: "quiet", text: "No row that is there came in this epoch." })]);
  const at = (moment) => (moment ? `${moment.epoch === null ? "" : `epoch ${moment.epoch}, `}${time(moment.time)}` : "");
  const columns = [...["held since", "held until"].map((name) => ({ name, type: "String", written: "" })), ...endpoint.columns];
  const rows = versions.map((v) => ({ ...v.row, "held since": at(v.since), "held until": at(v.until) || "now" }));
  return make("section", {}, words && make("p", { class: "facts" }, make("span", { text: words })), made_by.map((r) => part(r, "", byName)),
    rows.length > 0 && rowsTable({ title: "the versions", columns, rows, below: (row) => make("div", {}, madeOf(versions[rows.indexOf(row)].made_by)) }),
    count > rows.length && make("p", { class: "hint", text: `${rowsText(count - rows.length).replace("row", "version")} earlier` }),
    unknown.map((text) => make("p", { class: "hint", text: `not known: ${text}` })));
}

export function part(read, said, byName) {
  const endpoint = byName(read.relation), name = endpoint ? make("a", { href: addresses.view(endpoint.name), text: read.relation }) : read.relation;
  const how = read.how ? `, ${read.how}` : "";
  const head = make("h3", {}, said, name, read.untold ? `${how}: ${read.untold}` : `: ${rowsText(read.count)}${how}`);
  if (!read.rows.length) return make("section", {}, head, read.count > 0 && make("p", { class: "quiet", text: "Its rows are not served." }));
  const columns = columnsOf(read.rows, endpoint);
  const below = endpoint && hasWhy(endpoint) ? (row) => answer(endpoint, byName, row) : null;
  const more = read.count - read.rows.length;
  return make("section", {}, head, rowsTable({ title: read.relation, columns, rows: read.rows, below: below && ((row) => (isNamed(endpoint, row) ? below(row) : whyOf(endpoint, byName, row))) }),
    more > 0 && make("p", { class: "hint", text: `${rowsText(more)} more${read.order.length ? `, in the order of ${read.order.map((n) => (n === "_uid" ? "their arrival" : n)).join(", ")}` : ""}` }));
}

/** The columns that the rows have: those of the endpoint where they are its rows. */
function columnsOf(rows, endpoint) {
  const own = endpoint?.columns.filter((c) => c.name in rows[0]) ?? [];
  return own.length ? own : Object.keys(rows[0]).map((name) => ({ name, type: "JSON", written: "" }));
}

function inAll({ inputs, sql }) {
  if (!sql || !inputs.length) return null;
  return make("p", { class: "facts" }, make("span", { class: "quiet", text: `in all, of the inputs: ${inputs.map((i) => `${i.relation}: ${i.untold ?? rowsText(i.count)}`).join("; ")}` }));
}
