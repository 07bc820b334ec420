// What a view is and how it is kept: its SQL, the steps with their reasons, its state. In: a node of the lineage. Out: an element.

import * as addresses from "../addresses.js";
import { errorBox, make, scrolling } from "../dom.js";
import { definition } from "../lineage.js";

export async function definitionOf(node) {
  const box = make("div", { class: "definition" });
  try {
    const { sql, standard_sql: standard, kept } = await definition(node.id);
    if (sql) box.append(make("h2", { text: "As it was written" }), code("SQL as it was written", sql));
    if (standard) box.append(make("details", {}, make("summary", { text: "In standard SQL" }), code("Standard SQL", standard)));
    if (kept) box.append(...howKept(kept));
    if (!sql && !kept) box.append(make("p", { class: "quiet", text: node.kind === "sink" ? "A sink: what is exported goes there." : "It is an input: its rows arrive." }));
  } catch (error) {
    box.append(errorBox(error));
  }
  return box;
}

export const code = (label, text) => make("pre", { tabindex: "0", role: "region", "aria-label": label }, make("code", { text }));

function howKept({ stages, state, reads }) {
  const found = [make("h2", { text: "How it is kept" }), make("p", { text: sentence(reads) })];
  const rows = stages.map((s) => make("tr", {}, make("th", { scope: "row", text: s.output }), make("td", { text: s.rule }), make("td", { text: [...new Set(s.reads)].join(", ") || "–" }), make("td", { text: s.reason })));
  if (rows.length) found.push(make("h3", { text: "Steps of an epoch" }), scrolling("Steps of an epoch", make("table", {}, head("Makes", "Rule", "From", "Why"), make("tbody", {}, rows))));
  const kept = state.map((s) => make("tr", {}, make("th", { scope: "row", text: s.relation }), make("td", { text: s.bound }), make("td", { text: s.paths.map((p) => `(${p})`).join(", ") || "–" })));
  if (kept.length) found.push(make("h3", { text: "State" }), scrolling("State", make("table", {}, head("Relation", "How many rows", "Found by"), make("tbody", {}, kept))));
  return found;
}

const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}.`;
const head = (...texts) => make("thead", {}, make("tr", {}, texts.map((text) => make("th", { scope: "col", text }))));

/** Links to other nodes of the lineage; nothing where there are none. */
export function links(label, ids, graph) {
  if (!ids.length) return null;
  const each = ids.map((id) => graph.nodes.get(id)).filter(Boolean);
  return make("p", { class: "links" }, make("span", { class: "quiet", text: `${label} ` }), each.flatMap((n, i) => [i ? ", " : "", make("a", { href: n.endpoint ? addresses.view(n.endpoint) : addresses.node(n.id), text: n.name })]));
}
