// One view, query template, input or subscription: its rows with order, filters and pages, a chart, its definition. The address says it all.

import * as addresses from "../addresses.js";
import { ask, readEvents } from "../api.js";
import { errorBox, labelled, make, select } from "../dom.js";
import { lineage } from "../lineage.js";
import { counted, parseJson, short } from "../numbers.js";
import { chartOf, hasChart } from "../rows/chart.js";
import { definitionOf, links } from "../rows/definition.js";
import { MOST, asCsv, asJson, fetchAll, save } from "../rows/downloads.js";
import { filters, parameterForm } from "../rows/filters.js";
import { SIZES, addressOf, countRequest, missing, pageRequest, stateOf } from "../rows/question.js";
import { hasRelated, relatedOf } from "../rows/related.js";
import { rowsTable } from "../rows/table.js";
import { hasWhy, whyOf } from "../rows/why.js";
import { canAskWhyNot, whyNotOf } from "../rows/why_not.js";
import { schema } from "../schema.js";

export async function show(outlet, address) {
  const [{ endpoints }, graph] = await Promise.all([schema(), lineage()]);
  const endpoint = endpoints[address.path[1]];
  if (!endpoint) throw Object.assign(new Error(`there is no view "${address.path[1]}"`), { hint: "the page Views lists them all" });
  const node = graph.ofEndpoint(endpoint.name);
  const page = { endpoint, endpoints, graph, node, body: make("div", { class: "body" }), top: make("div"), told: make("p", { class: "told", role: "status" }), turn: 0, live: null };
  outlet.append(...heading(page, graph), page.top, page.body);
  render(page, address);
  return { close: () => stop(page), update: (next) => render(page, next) };
}

function heading({ endpoint, node }, graph) {
  const kinds = { view: node?.at_read ? "computed when it is read" : "maintained by epochs", input: node?.source ? `reads ${node.source}` : "takes pushes", template: "query template", subscription: "events of a subscription" };
  const related = graph.relationships.filter((r) => r.owner === node?.id).map((r) => r.target);
  return [
    make("h1", { text: node?.name ?? endpoint.title }),
    endpoint.doc && make("p", { class: "lead", text: endpoint.doc }),
    make("p", { class: "facts" }, make("span", { class: "badge", text: kinds[node?.kind ?? "view"] }),
      node?.key.length ? make("span", { class: "quiet", text: `key: ${node.key.join(", ")}` }) : null,
      node && make("a", { href: addresses.node(node.id), text: "in the lineage" }),
      node?.mutation && make("a", { href: addresses.write(["push", node.mutation]), text: "push rows" })),
    node && links("made of", node.reads, graph), node && links("read by", node.readBy, graph), links("related to", [...new Set(related)], graph),
  ].filter(Boolean);
}

async function render(page, address) {
  const state = stateOf(page.endpoint, address);
  const mine = ++page.turn;
  stop(page);
  const change = (changed) => { location.hash = addressOf(page.endpoint, { ...state, page: 1, ...changed }); };
  const isAsked = !missing(page.endpoint, state).length;
  page.top.replaceChildren(...[tabs(page, state, change), state.tab !== "definition" && parameterForm(page.endpoint, state, change), state.tab !== "definition" && isAsked && filters(page.endpoint, state, change)].filter(Boolean));
  if (state.tab !== "rows") page.body.replaceChildren(make("p", { class: "empty", text: "Asking …" }));
  if (state.tab === "definition") return put(page, mine, page.node ? await definitionOf(page.node) : make("p", { class: "quiet", text: "Nothing is known of it." }));
  if (!isAsked) return put(page, mine, make("p", { class: "empty", text: "Give the parameters, then ask." }));
  if (state.tab === "chart") return put(page, mine, await chartOf(page.endpoint, state, page.node?.key ?? [], change));
  return rows(page, state, change, mine);
}

const put = (page, mine, ...children) => { if (mine === page.turn) page.body.replaceChildren(...children); };

function tabs({ endpoint, node }, state, change) {
  const known = [["rows", "Rows"], hasChart(endpoint) && ["chart", "Chart"], node && ["definition", "Definition"]].filter(Boolean);
  return make("nav", { class: "tabs", "aria-label": "Parts of this page" }, known.map(([tab, text]) => make("a", { href: addressOf(endpoint, { ...state, tab }), text, "aria-current": state.tab === tab ? "page" : undefined })));
}

// --- rows

async function rows(page, state, change, mine) {
  const { endpoint } = page;
  const sort = endpoint.orderType ? (column) => change({ order: nextOrder(state.order, column) }) : null;
  const below = hasRelated(endpoint) || hasWhy(endpoint) ? (row) => belowOf(page, row) : null;

  function put(data, extensions) {
    if (mine !== page.turn) return;
    const hasNext = data.rows.length > state.size || (state.size >= endpoint.most && data.rows.length === state.size), shown = data.rows.slice(0, state.size);
    const focused = document.activeElement?.closest("th")?.cellIndex;
    page.body.replaceChildren(bar(page, state, change), rowsTable({ title: endpoint.title, columns: endpoint.columns, rows: shown, order: state.order, sort, below }), emptyOf(page, state, shown.length), pager(state, shown.length, hasNext, change, page));
    if (focused >= 0) page.body.querySelectorAll("th")[focused]?.querySelector("button")?.focus();
    page.told.textContent = `${counted(shown.length, "row")}${extensions ? ` of epoch ${extensions.epoch}` : ""}${heldText(extensions)}`;
    page.told.classList.toggle("warning", Boolean(extensions?.quarantined));
  }

  try {
    if (state.live && !endpoint.hasEvents) return follow(page, state, mine, put);
    const { query, variables } = pageRequest(endpoint, state);
    const { data, extensions } = await ask(query, variables);
    put(data, extensions);
    count(page, state, mine);
  } catch (error) {
    if (mine === page.turn) page.body.replaceChildren(bar(page, state, change), errorBox(error));
  }
}

/** Below a list without rows: why there are none. */
function emptyOf(page, state, count) {
  const isAsked = count === 0 && state.page === 1 && page.node?.kind !== "template" && canAskWhyNot(page.endpoint, state.filters);
  return isAsked ? whyNotOf(page.endpoint, byNameOf(page), state.filters) : "";
}

const byNameOf = ({ endpoints, graph }) => (name) => endpoints[[...graph.nodes.values()].find((n) => n.name === name && n.endpoint)?.endpoint];

/** What a row shows when it is opened: the rows that are related to it, and where it comes from. */
async function belowOf(page, row) {
  const { endpoint, endpoints } = page;
  return make("div", {}, hasRelated(endpoint) && (await relatedOf(endpoint, endpoints, row)), hasWhy(endpoint) && whyOf(endpoint, byNameOf(page), row));
}

/** That rows are those of an earlier epoch, since the view has failed. */
const heldText = (extensions) => (extensions?.quarantined ?? []).map(({ view, epoch }) => `; ${view} is in quarantine: ${epoch === null ? "no epoch has filled it" : `its rows are those of epoch ${epoch}`}`).join("");

const nextOrder = (order, column) => (order?.column !== column ? { column, descending: false } : order.descending ? null : { column, descending: true });

/** Rows that come again after each epoch that changed them. Breaks are mended until the page is left. */
async function follow(page, state, mine, put) {
  const broken = (page.live = new AbortController());
  const { query, variables } = pageRequest(page.endpoint, state, "subscription");
  const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ query, variables }), signal: broken.signal };
  while (mine === page.turn) {
    try {
      await readEvents("graphql", options, (event) => {
        const found = event?.data && parseJson(event.data);
        if (found?.errors) page.told.textContent = found.errors[0].message;
        else if (found?.data) put(found.data, found.extensions);
      });
    } catch (error) {
      if (broken.signal.aborted) return;
      if (error.status >= 400 && error.status < 500) return page.body.replaceChildren(errorBox(error));
    }
    if (mine === page.turn) await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

function stop(page) {
  page.live?.abort();
  page.live = null;
}

async function count(page, state, mine) {
  if (!page.endpoint.countsRows) return;
  try {
    const { query, variables } = countRequest(page.endpoint, state);
    const { data } = await ask(query, variables);
    if (mine === page.turn) page.told.textContent += `, ${short(data.rows.totalCount)} in all`;
  } catch { /* the rows are there without their count */ }
}

function bar(page, state, change) {
  const { endpoint } = page;
  const live = make("input", { type: "checkbox", checked: state.live, onchange: (event) => change({ live: event.target.checked, page: state.page }) });
  const button = (text, onclick) => make("button", { type: "button", text, onclick });
  const copy = button("Copy the address", async () => {
    try { await navigator.clipboard.writeText(location.href); page.told.textContent = "The address is copied."; } catch { page.told.textContent = location.href; }
  });
  const { query, variables } = pageRequest(endpoint, state);
  return make("div", { class: "bar" },
    endpoint.hasEvents ? make("a", { class: "button", href: addresses.write(["query"], { query: eventsOf(endpoint) }), text: "Follow" }) : make("label", { class: "switch" }, live, "Live"), page.told, make("span", { class: "grow" }),
    button("JSON", () => download(page, state, "json")), button("CSV", () => download(page, state, "csv")), copy,
    make("a", { class: "button", href: addresses.write(["query"], { query, variables: Object.keys(variables).length ? JSON.stringify(variables, null, 2) : null }), text: "As a query" }));
}

const eventsOf = (endpoint) => `subscription {\n  ${endpoint.name} {\n    ${endpoint.columns.map((c) => c.selection).join("\n    ")}\n  }\n}\n`;

async function download(page, state, form) {
  const { endpoint, told } = page;
  try {
    const { rows: found, isCut } = await fetchAll(endpoint, state, (n) => { told.textContent = `${counted(n, "row")} …`; });
    if (form === "json") save(`${endpoint.name}.json`, "application/json", asJson(found));
    else save(`${endpoint.name}.csv`, "text/csv", asCsv(endpoint.columns.map((c) => c.name), found));
    told.textContent = isCut ? `the first ${short(MOST)} rows are saved; there are more: filter them` : `saved: ${counted(found.length, "row")}`;
  } catch (error) {
    told.textContent = error.message;
  }
}

function pager(state, shown, hasNext, change, page) {
  const go = (text, number, can) => make("button", { type: "button", text, disabled: !can, onclick: () => change({ page: number }) });
  const sizes = SIZES.includes(state.size) ? SIZES : [state.size, ...SIZES].sort((a, b) => a - b);
  const first = (state.page - 1) * state.size + 1;
  return make("nav", { class: "pager", "aria-label": "Pages of rows" },
    go("‹ Earlier rows", state.page - 1, state.page > 1),
    make("span", { class: "quiet", text: shown ? `rows ${first} to ${first + shown - 1}` : "no rows" }),
    go("Later rows ›", state.page + 1, hasNext),
    labelled("Rows a page", select(sizes.filter((s) => s <= page.endpoint.most).map((s) => [String(s)]), String(state.size), { onchange: (event) => change({ size: Number(event.target.value) }) })));
}
