// A lineage as a picture. In: nodes with what they read, relationships, the chosen node. Out: an SVG element whose nodes are links.

import * as addresses from "../addresses.js";
import { draw } from "../dom.js";
import { layersOf } from "./layers.js";

const HEIGHT = 42, GAP_X = 64, GAP_Y = 18, EDGE = 12;
const LETTER = 8.2, LEAST = 130, MOST_LETTERS = 32;
let width = LEAST;

export function picture(nodes, relationships, chosen) {
  width = Math.max(LEAST, 24 + LETTER * Math.max(0, ...[...nodes.values()].map((n) => Math.min(MOST_LETTERS, n.name.length))));
  const layers = layersOf(new Map([...nodes.values()].map((n) => [n.id, n.reads])));
  const tallest = Math.max(1, ...layers.map((l) => l.length));
  const size = { width: 2 * EDGE + layers.length * width + (layers.length - 1) * GAP_X + 40, height: 2 * EDGE + tallest * (HEIGHT + GAP_Y) };
  const place = new Map(layers.flatMap((layer, x) => layer.map((id, y) => [id, { x: EDGE + x * (width + GAP_X), y: EDGE + (y + (tallest - layer.length) / 2) * (HEIGHT + GAP_Y) }])));
  const near = chosen ? new Set([chosen, ...nodes.get(chosen).reads, ...nodes.get(chosen).readBy]) : null;
  const edges = [...nodes.values()].flatMap((n) => n.reads.map((r) => edge(place.get(r), place.get(n.id), chosen && (r === chosen || n.id === chosen))));
  const links = relationships.filter((r) => place.has(r.owner) && place.has(r.target)).map((r) => link(r, place, chosen));
  const boxes = [...nodes.values()].map((n) => box(n, place.get(n.id), near && !near.has(n.id), n.id === chosen));
  return draw("svg", { viewBox: `0 0 ${size.width} ${size.height}`, width: size.width, height: size.height, class: "lineage", role: "group", "aria-label": "Lineage: what reads what" },
    draw("defs", {}, arrowHead("arrow"), arrowHead("arrow-near")), draw("g", { "aria-hidden": "true" }, links, edges), boxes);
}

const arrowHead = (id) => draw("marker", { id, viewBox: "0 0 8 8", refX: "7", refY: "4", markerWidth: "7", markerHeight: "7", orient: "auto" }, draw("path", { d: "M0 0 8 4 0 8z", class: id }));

function edge(from, to, isNear) {
  const [x1, y1, x2, y2] = [from.x + width, from.y + HEIGHT / 2, to.x - 1, to.y + HEIGHT / 2];
  const bend = Math.max(24, (x2 - x1) / 2);
  return draw("path", { d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`, class: isNear ? "edge near" : "edge", "marker-end": `url(#${isNear ? "arrow-near" : "arrow"})` });
}

/** A relationship leads out of its owner below the middle: to the side on which its target stands, or around where that is above or below. */
function link({ owner, target, name }, place, chosen) {
  const from = place.get(owner), to = place.get(target);
  const side = Math.sign(to.x - from.x);
  const [x1, y1, x2, y2] = [from.x + (side < 0 ? 0 : width), from.y + HEIGHT - 9, to.x + (side > 0 ? 0 : width), to.y + HEIGHT - 9];
  const out = side === 0 ? 26 + Math.min(24, Math.abs(y2 - y1) / 8) : (side * Math.abs(x2 - x1)) / 2;
  const d = owner === target ? `M${x1} ${y1 - 12}C${x1 + 36} ${y1 - 18} ${x1 + 36} ${y1 + 8} ${x1} ${y1}` : `M${x1} ${y1}C${x1 + out} ${y1} ${x2 + (side ? -out : out)} ${y2} ${x2} ${y2}`;
  return draw("path", { d, class: chosen === owner || chosen === target ? "relationship near" : "relationship" }, draw("title", { text: name }));
}

function box(node, { x, y }, isFar, isChosen) {
  const shown = node.name.length > MOST_LETTERS ? `${node.name.slice(0, MOST_LETTERS - 1)}…` : node.name;
  return draw("a", { href: addresses.node(node.id), class: `node ${node.kind}${isFar ? " far" : ""}${isChosen ? " chosen" : ""}${node.endpoint ? "" : " private"}`, "aria-label": `${node.name}, ${node.kind}`, "aria-current": isChosen ? "true" : undefined },
    draw("title", { text: node.doc ? `${node.name}: ${node.doc}` : node.name }),
    draw("rect", { x, y, width: width, height: HEIGHT, rx: node.kind === "input" || node.kind === "sink" ? HEIGHT / 2 : 6 }),
    draw("text", { x: x + width / 2, y: y + 18, class: "name", text: shown }),
    draw("text", { x: x + width / 2, y: y + 33, class: "kind", text: node.at_read ? "view, at read" : node.kind }));
}
