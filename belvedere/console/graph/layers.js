// Where the nodes of a graph without cycles are drawn. In: ids, and what each reads. Out: a place for each: layer and position in it.
// Each node stands right of all that it reads; within a layer nodes stand near their neighbours (the median rule of Sugiyama's method).

const ROUNDS = 8;

export function layersOf(reads) {
  const layer = new Map();
  const visit = (id, seen = new Set()) => {
    if (layer.has(id)) return layer.get(id);
    if (seen.has(id)) return 0;
    seen.add(id);
    const found = Math.max(-1, ...(reads.get(id) ?? []).map((r) => visit(r, seen))) + 1;
    layer.set(id, found);
    return found;
  };
  for (const id of reads.keys()) visit(id);
  const layers = [];
  for (const [id, number] of layer) (layers[number] ??= []).push(id);
  return ordered(layers.map((l) => l ?? []), reads);
}

function ordered(layers, reads) {
  const readers = new Map([...reads.keys()].map((id) => [id, []]));
  for (const [id, read] of reads) for (const r of read) readers.get(r)?.push(id);
  for (let round = 0; round < ROUNDS; round += 1) {
    const down = round % 2 === 0;
    const place = places(layers);
    for (const layer of down ? layers : [...layers].reverse()) {
      const neighbours = (id) => (down ? reads.get(id) : readers.get(id)) ?? [];
      const wanted = new Map(layer.map((id) => [id, median(neighbours(id).map((n) => place.get(n))) ?? place.get(id)]));
      layer.sort((a, b) => wanted.get(a) - wanted.get(b));
      layer.forEach((id, n) => place.set(id, (n + 0.5) / layer.length));
    }
  }
  return layers;
}

/** How far down its layer each node stands, from 0 to 1. */
function places(layers) {
  return new Map(layers.flatMap((layer) => layer.map((id, n) => [id, (n + 0.5) / layer.length])));
}

function median(values) {
  if (!values.length) return undefined;
  const sorted = [...values].sort((a, b) => a - b), middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
