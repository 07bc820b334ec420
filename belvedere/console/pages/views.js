// All views, query templates and subscriptions, with a search.

import * as addresses from "../addresses.js";
import { labelled, make } from "../dom.js";
import { lineage } from "../lineage.js";
import { schema } from "../schema.js";

const GROUPS = [["view", "Views"], ["input", "Inputs"], ["template", "Query templates"], ["subscription", "Subscriptions"]];

export async function show(outlet) {
  const [{ endpoints }, graph] = await Promise.all([schema(), lineage()]);
  const known = Object.values(endpoints).map((e) => ({ ...e, node: graph.ofEndpoint(e.name) }));
  const list = make("div");
  const search = make("input", { type: "search", oninput: () => fill() });

  function fill() {
    const wanted = search.value.trim().toLowerCase();
    const found = known.filter((e) => [e.name, e.title, e.node?.name ?? "", ...e.columns.map((c) => c.name)].some((n) => n.toLowerCase().includes(wanted)));
    const groups = GROUPS.map(([kind, title]) => [title, found.filter((e) => (e.node?.kind ?? "view") === kind)]).filter(([, entries]) => entries.length);
    list.replaceChildren(...groups.flatMap(([title, entries]) => [make("h2", { text: title }), make("ul", { class: "cards" }, entries.map(card))]));
    if (!groups.length) list.append(make("p", { class: "empty", text: wanted ? "Nothing has that name." : "The script has no public views." }));
  }

  fill();
  outlet.append(make("h1", { text: "Views" }), labelled("Find a view or a column", search), list);
}

function card(endpoint) {
  const columns = endpoint.columns.map((c) => c.name).join(", ");
  return make("li", { class: "card" },
    make("h3", {}, make("a", { href: addresses.view(endpoint.name), text: endpoint.node?.name ?? endpoint.title })),
    endpoint.doc && make("p", { text: endpoint.doc }),
    make("p", { class: "quiet", text: columns }));
}
