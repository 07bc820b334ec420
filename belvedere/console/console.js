// The console: asks the API what it has, helps to write a query, shows the answer. No library, nothing from other hosts.

const by = (id) => document.getElementById(id);
const query = by("query"), paint = by("paint"), variables = by("variables");
const HISTORY = "belvedere.history", DRAFT = "belvedere.draft", TOKEN = "belvedere.token";
let model = { roots: [], types: {} };
let shown = "json";
let last = null;
let timer = null;

const kept = (storage, name, otherwise) => { try { return storage.getItem(name) ?? otherwise; } catch { return otherwise; } };
const keep = (storage, name, value) => { try { storage.setItem(name, value); } catch { /* a browser without storage */ } };
const make = (tag, attributes = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), attributes);
  element.append(...children);
  return element;
};

// --- asking

async function ask(text, values, operationName) {
  const headers = { "Content-Type": "application/json" };
  const token = kept(sessionStorage, TOKEN, "");
  if (token) headers.Authorization = `Bearer ${token}`;
  const response = await fetch("graphql", { method: "POST", headers, body: JSON.stringify({ query: text, variables: values, operationName }) });
  by("token-bar").hidden = response.status !== 401;
  return JSON.parse(await response.text(), exactly);
}

// whole numbers of 64 bits do not fit into JavaScript's numbers: they are kept as they were written, where the browser can
const exactly = (name, value, context) =>
  typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value) && context?.source && JSON.rawJSON ? JSON.rawJSON(context.source) : value;
const isExact = (value) => JSON.isRawJSON?.(value) ?? false;

const DESCRIBE = `{ __schema { queryType { fields { name description type { ...T } args { name type { ...T } } } }
  types { kind name description fields { name description type { ...T } args { name } } } } }
  fragment T on __Type { kind name ofType { kind name ofType { kind name ofType { kind name } } } }`;

const named = (type) => (type.ofType ? named(type.ofType) : type);
const isList = (type) => type.kind === "LIST" || (type.kind === "NON_NULL" && isList(type.ofType));
const written = (type) => type.kind === "NON_NULL" ? `${written(type.ofType)}!` : type.kind === "LIST" ? `[${written(type.ofType)}]` : type.name;

async function describe() {
  try {
    const answer = await ask(DESCRIBE);
    if (!answer.data) return;
    const types = Object.fromEntries(answer.data.__schema.types.filter((t) => t.fields && !t.name.startsWith("__")).map((t) => [t.name, t]));
    model = { roots: answer.data.__schema.queryType.fields, types };
    showViews();
  } catch { by("views").textContent = "The API does not answer."; }
}

// --- views

const leaf = (field, types) => !types[named(field.type).name];

function sample(root) {
  const type = model.types[named(root.type).name];
  const fields = type ? type.fields.filter((f) => leaf(f, model.types)).slice(0, 8).map((f) => f.name) : [];
  const needed = root.args.filter((a) => a.type.kind === "NON_NULL");
  const given = needed.length
    ? `(${needed.map((a) => `${a.name}: ${/Int|Long|Float/.test(written(a.type)) ? 1 : '""'}`).join(", ")})`
    : root.args.some((a) => a.name === "limit") ? "(limit: 20)" : "";
  return `{\n  ${root.name}${given} {\n${(fields.length ? fields : ["__typename"]).map((f) => `    ${f}`).join("\n")}\n  }\n}\n`;
}

function showViews() {
  const wanted = by("search").value.trim().toLowerCase();
  const lists = model.roots.filter((r) => isList(r.type));
  const plain = lists.filter((r) => r.args.some((a) => a.name === "filter"));
  const templates = lists.filter((r) => !plain.includes(r));
  const box = by("views");
  const open = new Set([...box.querySelectorAll("details[open]")].map((d) => d.dataset.name));
  box.replaceChildren();
  for (const [title, roots] of [["", plain], ["Query templates", templates]]) {
    const matching = roots.filter((r) => matches(r, wanted));
    if (title && matching.length) box.append(make("p", { className: "group", textContent: title }));
    for (const root of matching) box.append(entry(root, open.has(root.name) || (wanted && matching.length < 4)));
  }
  if (!box.childElementCount) box.append(make("p", { className: "group", textContent: wanted ? "Nothing of that name." : "No public views." }));
}

function matches(root, wanted) {
  const fields = model.types[named(root.type).name]?.fields ?? [];
  return !wanted || [root.name, ...fields.map((f) => f.name)].some((n) => n.toLowerCase().includes(wanted));
}

function entry(root, open) {
  const type = model.types[named(root.type).name];
  const use = make("button", { type: "button", textContent: "Query", title: "Write a query for it" });
  use.addEventListener("click", (event) => { event.preventDefault(); setQuery(sample(root)); run(); });
  const details = make("details", { className: "view", open }, make("summary", {}, make("span", { textContent: root.name }), use));
  details.dataset.name = root.name;
  if (root.description) details.append(make("p", { className: "doc", textContent: root.description }));
  const list = make("ul", { className: "columns" });
  for (const field of type?.fields ?? []) {
    const link = !leaf(field, model.types);
    list.append(make("li", { title: field.description ?? "" }, make("span", { textContent: field.name, className: link ? "link" : "" }), make("span", { className: "type", textContent: written(field.type) })));
  }
  details.append(list);
  return details;
}

// --- the editor

const escaped = (text) => text.replace(/[&<>]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[c]);
const TOKENS = /(#[^\n]*)|("(?:[^"\\\n]|\\.)*"?)|(-?\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b)|(\$?[_A-Za-z]\w*)(\s*:)?|(@\w+)/g;
const WORDS = new Set(["query", "fragment", "on", "true", "false", "null"]);

function colour(text) {
  let html = "", end = 0;
  for (const found of text.matchAll(TOKENS)) {
    html += escaped(text.slice(end, found.index));
    end = found.index + found[0].length;
    const [whole, comment, string, number, name, colon = "", directive] = found;
    if (comment) html += `<span class="comment">${escaped(comment)}</span>`;
    else if (string) html += `<span class="string">${escaped(string)}</span>`;
    else if (number) html += `<span class="number">${number}</span>`;
    else if (directive || WORDS.has(name) || name.startsWith("$") || /^[A-Z][A-Z_]+$/.test(name)) html += `<span class="word">${directive ?? name}</span>${colon}`;
    else html += colon ? `<span class="key">${name}</span>${colon}` : escaped(whole);
  }
  return html + escaped(text.slice(end));
}

function repaint() {
  paint.innerHTML = `${colour(query.value)}\n\n`;
  paint.scrollTop = query.scrollTop;
  paint.scrollLeft = query.scrollLeft;
}

function setQuery(text) {
  query.value = text;
  keep(localStorage, DRAFT, text);
  repaint();
}

function tidy(text) {
  let depth = 0, out = "", round = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  for (const token of text.match(/#[^\n]*|"(?:[^"\\\n]|\\.)*"|[{}()[\]:,!=@]|\.\.\.|[^\s{}()[\]:,!=@"#.]+|\./g) ?? []) {
    if (token === "(" || token === "[") { round += 1; out = (token === "(" ? out.trimEnd() : out) + token; continue; }
    if (token === ")" || token === "]") { round -= 1; out = `${out.trimEnd()}${token} `; continue; }
    if (round) { out = token === ":" || token === "," ? `${out.trimEnd()}${token} ` : token === "{" ? `${out}{` : token === "}" ? `${out.trimEnd()}} ` : token === "!" ? `${out.trimEnd()}! ` : `${out}${token} `; continue; }
    if (token === "{") { depth += 1; out = `${out.trimEnd()}${out.trim() ? " " : ""}{${line()}`; }
    else if (token === "}") { depth = Math.max(0, depth - 1); out = `${out.trimEnd()}${line()}}${depth ? line() : "\n"}`; }
    else if (token === ":") out = `${out.trimEnd()}: `;
    else if (token === "@" || token === "...") out += out.endsWith("\n" + "  ".repeat(depth)) || !out.trim() ? token : token === "@" ? " @" : `${line()}...`;
    else if (token.startsWith("#")) out += `${token}${line()}`;
    else if (/(: |\.\.\.|@)$/.test(out) || /\b(query|fragment|on|mutation|subscription) ?$/.test(out) || !depth) out += `${token}${depth ? "" : " "}`;
    else out = `${out.trimEnd()}${/[{]$/.test(out.trimEnd()) ? line() : line()}${token}`;
    if (/^on$|^fragment$|^query$/.test(token) && depth) out += " ";
  }
  return `${out.trim()}\n`;
}

query.addEventListener("input", () => { keep(localStorage, DRAFT, query.value); repaint(); });
query.addEventListener("scroll", repaint);
query.addEventListener("keydown", (event) => {
  if (event.key !== "Tab" || event.shiftKey) return;
  event.preventDefault();
  query.setRangeText("  ", query.selectionStart, query.selectionEnd, "end");
  repaint();
});

// --- answers

async function run() {
  let values;
  try { values = variables.value.trim() ? JSON.parse(variables.value) : undefined; } catch (error) {
    showErrors([{ message: `the variables are no JSON: ${error.message}` }]);
    by("variables-box").open = true;
    return;
  }
  const started = performance.now();
  try {
    const answer = await ask(query.value, values);
    const milliseconds = performance.now() - started;
    last = answer;
    showErrors(answer.errors ?? []);
    by("timing").textContent = `${milliseconds < 10 ? milliseconds.toFixed(1) : Math.round(milliseconds)} ms`;
    if (answer.extensions) showEpoch(answer.extensions);
    if (!answer.errors) remember();
    showAnswer();
  } catch (error) { showErrors([{ message: `the API does not answer: ${error.message}` }]); }
}

function showErrors(errors) {
  const box = by("errors");
  box.hidden = !errors.length;
  box.replaceChildren(...errors.flatMap((e) => {
    const at = e.locations?.[0] ? ` (line ${e.locations[0].line}, column ${e.locations[0].column})` : "";
    const lines = [make("p", { textContent: `${e.message}${at}` })];
    if (e.extensions?.hint) lines.push(make("p", { className: "hint", textContent: e.extensions.hint }));
    return lines;
  }));
}

function showEpoch({ epoch, asOf, freshnessMs }) {
  const age = freshnessMs < 1000 ? `${freshnessMs} ms` : freshnessMs < 120000 ? `${(freshnessMs / 1000).toFixed(1)} s` : `${Math.round(freshnessMs / 60000)} min`;
  by("epoch").textContent = `epoch ${epoch}, committed ${age} ago, as of ${asOf.replace("T", " ")}`;
  by("freshness").classList.add("ready");
}

function paintJson(value) {
  const text = escaped(JSON.stringify(value, null, 2) ?? "");
  return text.replace(/("(?:[^"\\]|\\.)*")(\s*:)?|\b(true|false|null)\b|(-?\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b)/g, (all, string, colon, word, number) =>
    string ? `<span class="${colon ? "key" : "string"}">${string}</span>${colon ?? ""}` : word ? `<span class="word">${word}</span>` : `<span class="number">${number}</span>`);
}

function showAnswer() {
  if (!last) return;
  const value = last.data ?? null;
  by("json").hidden = shown !== "json";
  by("table").hidden = shown !== "table";
  if (shown === "json") by("json").innerHTML = value === null ? "" : paintJson(value);
  else by("table").replaceChildren(...Object.entries(value ?? {}).map(([name, rows]) => asTable(rows, name)));
}

function asTable(value, name) {
  const rows = (Array.isArray(value) ? value : value?.nodes ?? [value]).filter((r) => r && typeof r === "object");
  const table = make("table");
  if (name) table.append(make("caption", { textContent: `${name} (${rows.length})` }));
  const columns = [...new Set(rows.flatMap((r) => Object.keys(r)))];
  table.append(make("thead", {}, make("tr", {}, ...columns.map((c) => make("th", { textContent: c, scope: "col" })))));
  table.append(make("tbody", {}, ...rows.map((r) => make("tr", {}, ...columns.map((c) => cell(r[c]))))));
  return table;
}

function cell(value) {
  if (value === null || value === undefined) return make("td", { className: "none", textContent: "null" });
  if (isExact(value)) return make("td", { className: "number", textContent: value.rawJSON });
  const rows = Array.isArray(value) ? value : [value];
  if (typeof value === "object" && rows.length && rows.every((r) => r && typeof r === "object" && !Array.isArray(r))) return make("td", {}, asTable(value));
  return make("td", { className: typeof value === "number" ? "number" : "", textContent: typeof value === "object" ? JSON.stringify(value) : String(value) });
}

// before the first epoch there is nothing to ask: wait for it, and say so
async function whenReady() {
  for (let pause = 250; ; pause = Math.min(2000, pause * 1.5)) {
    try {
      const answer = await fetch("readyz");
      if (answer.ok) return;
      by("epoch").textContent = "waiting for the first epoch";
    } catch { by("epoch").textContent = "the API does not answer"; }
    await new Promise((wake) => setTimeout(wake, pause));
  }
}

// --- history

const past = () => { try { return JSON.parse(kept(localStorage, HISTORY, "[]")); } catch { return []; } };

function remember() {
  const entries = past().filter((p) => p.query !== query.value);
  entries.unshift({ query: query.value, variables: variables.value, at: Date.now() });
  keep(localStorage, HISTORY, JSON.stringify(entries.slice(0, 50)));
  showHistory();
}

function showHistory() {
  by("history").replaceChildren(...past().map((p) => {
    const button = make("button", { type: "button", className: "past" }, make("code", { textContent: p.query.trim() }), make("time", { textContent: new Date(p.at).toLocaleString() }));
    button.addEventListener("click", () => { variables.value = p.variables; setQuery(p.query); run(); });
    return button;
  }));
}

// --- wiring

function select(tabs, chosen) { for (const tab of tabs) tab.setAttribute("aria-selected", String(tab === chosen)); }

const sideTabs = [...document.querySelectorAll("[data-tab]")];
for (const tab of sideTabs) tab.addEventListener("click", () => {
  select(sideTabs, tab);
  for (const name of ["views", "history"]) by(name).hidden = name !== tab.dataset.tab;
  by("search").hidden = tab.dataset.tab !== "views";
});
const resultTabs = [...document.querySelectorAll("[data-show]")];
for (const tab of resultTabs) tab.addEventListener("click", () => { select(resultTabs, tab); shown = tab.dataset.show; showAnswer(); });
by("run").addEventListener("click", run);
by("pretty").addEventListener("click", () => setQuery(tidy(query.value)));
by("search").addEventListener("input", showViews);
by("copy").addEventListener("click", () => navigator.clipboard?.writeText(JSON.stringify(last?.data ?? null, null, 2)));
by("live").addEventListener("change", async (event) => { clearInterval(timer); await whenReady(); if (event.target.checked) { run(); timer = setInterval(run, 1000); } });
by("token-save").addEventListener("click", () => { keep(sessionStorage, TOKEN, by("token").value); describe().then(whenReady).then(run); });
document.addEventListener("keydown", (event) => { if ((event.ctrlKey || event.metaKey) && event.key === "Enter") { event.preventDefault(); run(); } });

variables.value = "";
showHistory();
setQuery(new URLSearchParams(location.hash.slice(1)).get("query") ?? kept(localStorage, DRAFT, ""));
describe().then(() => {
  const first = model.roots.find((r) => isList(r.type));
  if (!query.value.trim() && first) setQuery(sample(first));
  if (query.value.trim()) whenReady().then(run);
});
