// The rows that belong to a row, by its relationships. In: an endpoint with a key, a row. Out: an element with a table for each.

import * as addresses from "../addresses.js";
import { ask } from "../api.js";
import { errorBox, make } from "../dom.js";
import { written } from "../schema.js";
import { rowsTable } from "./table.js";

const SOME = 10;

export const hasRelated = (endpoint) => Boolean(endpoint.byKey && endpoint.relations.length && endpoint.byKey.args.every((a) => a.name === "asOf" || endpoint.columns.some((c) => c.name === a.name)));

export async function relatedOf(endpoint, endpoints, row) {
  const others = endpoint.relations.map((r) => ({ ...r, other: Object.values(endpoints).find((e) => e.title === r.type) })).filter((r) => r.other?.columns.length);
  const key = endpoint.byKey.args.filter((a) => a.name !== "asOf");
  const fields = others.map((r) => `${r.name}${r.list ? `(limit: ${SOME})` : ""} { ${r.other.columns.map((c) => c.selection).join(" ")} }`).join("\n");
  if (!fields) return make("p", { class: "quiet", text: "Nothing is related that can be shown." });
  const query = `query(${key.map((a) => `$${a.name}: ${written(a.type)}`).join(", ")}) { row: ${endpoint.byKey.name}(${key.map((a) => `${a.name}: $${a.name}`).join(", ")}) { ${fields} } }`;
  try {
    const { data } = await ask(query, Object.fromEntries(key.map((a) => [a.name, row[a.name]])));
    if (!data.row) return make("p", { class: "quiet", text: "The row is gone." });
    return make("div", {}, others.map((r) => part(r, data.row[r.name])));
  } catch (error) {
    return errorBox(error);
  }
}

function part(relation, found) {
  const rows = Array.isArray(found) ? found : found ? [found] : [];
  const more = rows.length === SOME ? ` (the first ${SOME})` : "";
  return make("section", {}, make("h3", {}, make("a", { href: addresses.view(relation.other.name), text: relation.name }), more),
    rowsTable({ title: relation.name, columns: relation.other.columns, rows }));
}
