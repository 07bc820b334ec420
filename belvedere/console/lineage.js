// The script as a graph, asked for once, and the definition of one of its parts. It is empty for those who may not see it: rows are shown without.

import { getJson } from "./api.js";

let asked = null;

export const lineage = () => (asked ??= load().catch((error) => { asked = null; throw error; }));
export const forget = () => { asked = null; };
export const definition = (id) => getJson(`lineage/${id.split("/").map(encodeURIComponent).join("/")}`);

async function load() {
  const { nodes, relationships } = await getJson("lineage").catch((error) => {
    if (error.status !== 403) throw error;
    return { nodes: [], relationships: [] };
  });
  const byId = new Map(nodes.map((n) => [n.id, { ...n, readBy: [] }]));
  for (const node of byId.values()) for (const read of node.reads) byId.get(read)?.readBy.push(node.id);
  return { nodes: byId, relationships, ofEndpoint: (name) => [...byId.values()].find((n) => n.endpoint === name) };
}
