// All rows of a question as a file. In: an endpoint and a state. Out: JSON or CSV (RFC 4180); rows are fetched part by part.

import { ask } from "../api.js";
import { textOf } from "../numbers.js";
import { partRequest } from "./question.js";

export const MOST = 100_000;

/** Fetches the rows; `told` hears how many there are. More than `MOST` are left out, and `isCut` says so. */
export async function fetchAll(endpoint, state, told) {
  const rows = [];
  let after = null;
  while (rows.length < MOST) {
    const { query, variables } = partRequest(endpoint, state, after, rows.length);
    const { data } = await ask(query, variables);
    const part = Array.isArray(data.rows) ? data.rows : data.rows.nodes;
    rows.push(...part);
    told(rows.length);
    after = data.rows.endCursor;
    const more = Array.isArray(data.rows) ? part.length === endpoint.most : data.rows.hasNextPage;
    if (!more || !part.length) return { rows, isCut: false };
  }
  return { rows: rows.slice(0, MOST), isCut: true };
}

export const asJson = (rows) => `[${rows.map((r) => `\n${JSON.stringify(r)}`).join(",")}\n]\n`;

const quoted = (text) => (/[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
// NULL is an empty field, an empty text is a quoted one
const field = (value) => (value === "" ? '""' : quoted(textOf(value)));

export const asCsv = (columns, rows) => [columns.map(quoted), ...rows.map((r) => columns.map((c) => field(r[c])))].map((line) => `${line.join(",")}\r\n`).join("");

export function save(name, media, text) {
  const url = URL.createObjectURL(new Blob([text], { type: media }));
  const link = Object.assign(document.createElement("a"), { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
