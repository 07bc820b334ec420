// What a view's page asks, as its address says it. In: an endpoint, an address. Out: a state; GraphQL of it; the address of a state.

import * as addresses from "../addresses.js";
import { wholeNumber } from "../numbers.js";
import { named } from "../schema.js";

export const SIZES = [25, 50, 100, 250];
const LISTS = new Set(["in", "notIn"]);

export function stateOf(endpoint, { query }) {
  const filters = query.getAll("f").map((text) => {
    const [, column, operator, value] = /^([^.]*)\.([^.]*)\.?([^]*)$/.exec(text) ?? [];
    return { column, operator, value };
  }).filter((f) => endpoint.operators(f.column).includes(f.operator));
  const [column, way] = (query.get("order") ?? "").split(".");
  const order = endpoint.orderType && endpoint.columns.some((c) => c.name === column) ? { column, descending: way === "desc" } : null;
  const size = Math.min(Math.max(1, Number(query.get("size")) || 50), endpoint.most);
  return {
    filters, order, size, page: Math.max(1, Math.floor(Number(query.get("page")) || 1)), tab: query.get("tab") ?? "rows", live: query.get("live") === "1",
    parameters: Object.fromEntries(endpoint.parameters.map((p) => [p.name, query.get(`p.${p.name}`)])),
    chart: { x: query.get("x"), y: query.get("y"), by: query.get("by") },
  };
}

export function addressOf(endpoint, state) {
  const { filters, order, size, page, tab, live, parameters, chart } = state;
  return addresses.view(endpoint.name, {
    f: filters.map((f) => `${f.column}.${f.operator}.${f.value}`), order: order && `${order.column}.${order.descending ? "desc" : "asc"}`,
    size: size === 50 ? null : size, page: page === 1 ? null : page, tab: tab === "rows" ? null : tab, live: live ? "1" : null,
    ...Object.fromEntries(Object.entries(parameters).map(([n, v]) => [`p.${n}`, v])), ...chart,
  });
}

/** The parameters of a template that must be given and are not. */
export const missing = (endpoint, state) => endpoint.parameters.filter((p) => p.type.kind === "NON_NULL" && !p.defaultValue && state.parameters[p.name] === null);

/** A value of a GraphQL scalar, of its text. What is no such value stays text: the API says what is wrong with it. */
export function valueOf(type, text) {
  if ((type === "Int" || type === "Long") && /^\s*-?\d+\s*$/.test(text)) return wholeNumber(text.trim());
  if (type === "Float" && text.trim() !== "" && Number.isFinite(Number(text))) return Number(text);
  if (type === "Boolean" && /^(true|false)$/.test(text)) return text === "true";
  if (type === "JSON") try { return JSON.parse(text); } catch { return text; }
  return text;
}

function filterOf(endpoint, filters) {
  const conditions = filters.map(({ column, operator, value }) => {
    const type = endpoint.columns.find((c) => c.name === column)?.type;
    const given = operator === "isNull" ? value !== "false" : LISTS.has(operator) ? value.split(",").map((v) => valueOf(type, v.trim())) : valueOf(type, value);
    return { [column]: { [operator]: given } };
  });
  return conditions.length === 1 ? conditions[0] : { and: conditions };
}

/** The parts of a question for rows in a state: declared variables, arguments, values, columns. `more` are arguments beside. */
function parts(endpoint, state, more) {
  const found = [];
  const add = (name, type, value) => found.push({ name, type, value });
  for (const p of endpoint.parameters) if (state.parameters[p.name] !== null) add(p.name, writtenType(p.type), valueOf(named(p.type).name, state.parameters[p.name]));
  if (state.filters.length) add("filter", endpoint.filterType, filterOf(endpoint, state.filters));
  const order = more.order ?? state.order;
  if (order) add("order", `[${endpoint.orderType}!]`, [{ [order.column]: order.descending ? "DESC" : "ASC" }]);
  for (const [name, [type, value]] of Object.entries(more.given)) add(name, type, value);
  return found;
}

const writtenType = (type) => (type.kind === "NON_NULL" ? `${writtenType(type.ofType)}!` : type.kind === "LIST" ? `[${writtenType(type.ofType)}]` : type.name);

function request(field, found, selection, kind = "query") {
  const declared = found.map((p) => `$${p.name}: ${p.type}`).join(", "), passed = found.map((p) => `${p.name}: $${p.name}`).join(", ");
  const head = declared ? `${kind}(${declared})` : kind;
  return { query: `${head} {\n  rows: ${field}${passed ? `(${passed})` : ""} {\n    ${selection}\n  }\n}`, variables: Object.fromEntries(found.map((p) => [p.name, p.value])) };
}

const columnsOf = (endpoint) => endpoint.columns.map((c) => c.selection).join(" ") || "__typename";

/** The rows of a page and one more, which tells whether there is a next page. */
export function pageRequest(endpoint, state, kind) {
  const limit = Math.min(state.size + 1, endpoint.most);
  const given = { limit: ["Int", limit], ...(state.page > 1 ? { offset: ["Int", (state.page - 1) * state.size] } : {}) };
  return request(endpoint.name, parts(endpoint, state, { given }), columnsOf(endpoint), kind);
}

/** Up to `limit` rows in another order. */
export const sampleRequest = (endpoint, state, order, limit) => request(endpoint.name, parts(endpoint, state, { order, given: { limit: ["Int", Math.min(limit, endpoint.most)] } }), columnsOf(endpoint));

/** All rows, part by part: by cursor, or where there is none by their place. */
export function partRequest(endpoint, state, after, done) {
  if (!endpoint.hasPages) return request(endpoint.name, parts(endpoint, state, { given: { limit: ["Int", endpoint.most], offset: ["Int", done] } }), columnsOf(endpoint));
  const given = { first: ["Int", endpoint.most], ...(after ? { after: ["Cursor", after] } : {}) };
  return request(`${endpoint.name}Page`, parts(endpoint, state, { given }), `nodes { ${columnsOf(endpoint)} } endCursor hasNextPage`);
}

export function countRequest(endpoint, state) {
  return request(`${endpoint.name}Page`, parts(endpoint, { ...state, order: null }, { given: { first: ["Int", 1] } }), "totalCount");
}
