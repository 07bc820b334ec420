// The address of a page and what it shows: `#/views/bid?order=price.desc&page=2`. A copied address shows the same.

export function read(hash = location.hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  return { path: path.split("/").map(decodeURIComponent), query: new URLSearchParams(query) };
}

export function write(path, query = {}) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const each of Array.isArray(value) ? value : [value]) if (each !== null && each !== undefined && each !== "") parameters.append(name, each);
  }
  const text = parameters.toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

export const view = (name, query) => write(["views", name], query);
export const node = (id) => write(["lineage"], { node: id });
