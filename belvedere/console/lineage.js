// The script as a graph, asked for once, and the definition of one of its parts.

import { getJson } from "./api.js";

let asked = null;

export const lineage = () => (asked ??= load().catch((error) => { asked = null; throw error; }));
export const forget = () => { asked = null; };
export const definition = (id) => getJson(`lineage/${id.split("/").map(encodeURIComponent).join("/")}`);

async function load() {
  const { nodes, relationships } = await getJson("lineage");
  const byId = new Map(nodes.map((n) => [n.id, { ...n, readBy: [] }]));
  for (const node of byId.values()) for (const read of node.reads) byId.get(read)?.readBy.push(node.id);
  return { nodes: byId, relationships, ofEndpoint: (name) => [...byId.values()].find((n) => n.endpoint === name) };
}
