// The script as a graph: inputs, views, relationships, sinks. A click on a part tells of it; the address keeps which.

import * as addresses from "../addresses.js";
import { make } from "../dom.js";
import { picture } from "../graph/drawing.js";
import { lineage } from "../lineage.js";
import { definitionOf, links } from "../rows/definition.js";

export async function show(outlet, address) {
  const graph = await lineage();
  const box = make("div", { class: "scrolling graph", tabindex: "0", role: "region", "aria-label": "Lineage" });
  const details = make("div", { class: "details", "aria-live": "polite" });
  outlet.append(make("h1", { text: "Lineage" }), make("p", { class: "quiet", text: "From inputs on the left to what is made of them. A dashed line is a relationship. Choose a part to read how it is kept." }), legend(), box, details);
  if (!graph.nodes.size) box.append(make("p", { class: "empty", text: "There is nothing that you may see." }));

  async function update({ query }) {
    const chosen = graph.nodes.get(query.get("node"));
    details.dataset.node = query.get("node") ?? "";
    if (graph.nodes.size) {
      const hadFocus = box.contains(document.activeElement) && document.activeElement !== box;
      box.replaceChildren(picture(graph.nodes, graph.relationships, chosen?.id));
      const link = box.querySelector(".chosen");
      if (hadFocus) link?.focus({ preventScroll: true });
      reveal(box, link);
    }
    details.replaceChildren(...(chosen ? about(chosen, graph) : []));
    if (!chosen) return;
    const definition = await definitionOf(chosen);
    if (query.get("node") === details.dataset.node) details.append(definition);
  }

  update(address);
  return { update };
}

function reveal(box, link) {
  if (!link) return;
  const [outer, inner] = [box.getBoundingClientRect(), link.getBoundingClientRect()];
  if (inner.left < outer.left || inner.right > outer.right) box.scrollLeft += inner.left - outer.left - 40;
}

const legend = () => make("ul", { class: "legend" }, ["input", "view", "template", "subscription", "sink"].map((kind) => make("li", {}, make("span", { class: `swatch ${kind}`, "aria-hidden": "true" }), kind)));

function about(node, graph) {
  const owned = graph.relationships.filter((r) => r.owner === node.id);
  return [
    make("h2", {}, node.name),
    node.doc && make("p", { text: node.doc }),
    make("p", { class: "facts" }, make("span", { class: "badge", text: node.at_read ? "view, computed when it is read" : node.kind }),
      node.source && make("span", { class: "quiet", text: `reads ${node.source}` }),
      node.endpoint ? make("a", { href: addresses.view(node.endpoint), text: "its rows" }) : make("span", { class: "quiet", text: "not served" }),
      node.mutation && make("a", { href: addresses.write(["push", node.mutation]), text: "push rows" })),
    links("made of", node.reads, graph), links("read by", node.readBy, graph),
    owned.length ? make("ul", { class: "relationships" }, owned.map((r) => make("li", {}, `${r.name}: ${r.one ? "one row" : "rows"} of `, make("a", { href: addresses.node(r.target), text: graph.nodes.get(r.target)?.name ?? r.target })))) : null,
  ].filter(Boolean);
}
