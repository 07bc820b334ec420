// The editor: several operations in a document, variables, headers, answers as JSON and tables, subscriptions as they come. The address keeps it.

import * as addresses from "../addresses.js";
import { post, readEvents } from "../api.js";
import { docs } from "../editor/docs.js";
import { firstQuery, operationsOf, tidy } from "../editor/documents.js";
import { buildClientSchema, getIntrospectionQuery } from "../editor/codemirror.js";
import { answerViewer, jsonEditor, queryEditor } from "../editor/editors.js";
import { answerPanel } from "../editor/answers.js";
import { make } from "../dom.js";
import { counted, parseJson } from "../numbers.js";
import { schema } from "../schema.js";
import { local } from "../storage.js";
import { past } from "../editor/past.js";

export async function show(outlet, address) {
  const [{ endpoints }, described] = await Promise.all([schema(), post({ query: getIntrospectionQuery({ inputValueDeprecation: true, specifiedByUrl: true }) })]);
  if (described.errors) throw Object.assign(new Error(described.errors[0].message), { hint: described.errors[0].extensions?.hint });
  const known = buildClientSchema(described.data, { assumeValid: true });
  const page = { running: null, operation: address.query.get("operation") ?? "" };
  const given = address.query.get("query");

  const help = docs(known);
  const chooser = make("select", { "aria-label": "Operation to run", hidden: true, onchange: () => { page.operation = chooser.value; } });
  const go = () => (page.running ? halt() : run());
  const button = make("button", { type: "button", class: "primary", title: "Ctrl+Enter", onclick: go, text: "Run" });
  const query = queryEditor(given ?? local.get("draft") ?? firstQuery(endpoints), known, { told: changed, run, jump: (field, type, parent) => { aside.hidden = false; help.open(parent ?? type, field); } });
  const variables = jsonEditor("Variables, as JSON", address.query.get("variables") ?? (given === null ? local.get("variables") ?? "" : ""), { told: (text) => local.set("variables", text), run });
  const headers = jsonEditor("Headers, as JSON", "", { run });
  const answer = answerPanel(answerViewer("Answer"));
  const told = make("p", { class: "told", role: "status" });
  const history = past((text) => query.put(text));
  const aside = make("aside", { "aria-label": "Documentation and earlier queries" }, help.element, history.element);

  function changed(text) {
    local.set("draft", text);
    const operations = operationsOf(text);
    const names = operations.map((o) => o.name);
    if (!names.includes(page.operation)) page.operation = names[0] ?? "";
    chooser.hidden = operations.length < 2;
    chooser.replaceChildren(...operations.map((o) => make("option", { value: o.name, text: `${o.kind} ${o.name || "(no name)"}`, selected: o.name === page.operation })));
    page.kind = operations.find((o) => o.name === page.operation)?.kind;
  }

  function read(editor, what) {
    if (!editor.text().trim()) return undefined;
    try { return parseJson(editor.text()); } catch (error) { throw new Error(`the ${what} are no JSON: ${error.message}`); }
  }

  async function run() {
    halt();
    try {
      changed(query.text());
      const body = { query: query.text(), variables: read(variables, "variables"), operationName: page.operation || undefined };
      const more = read(headers, "headers");
      keepAddress(body);
      page.running = new AbortController();
      if (page.kind === "subscription") await follow(body, more, page.running);
      else await once(body, more, page.running);
    } catch (error) {
      if (error.name !== "AbortError") answer.show({ errors: [{ message: error.message, extensions: { hint: error.hint } }] });
    }
    page.running = null;
    button.textContent = "Run";
  }

  async function once(body, more, running) {
    const started = performance.now();
    const found = await post(body, { headers: more, signal: running.signal });
    const took = performance.now() - started;
    answer.show(found);
    told.textContent = `${took < 10 ? took.toFixed(1) : Math.round(took)} ms${found.extensions?.epoch === undefined ? "" : `, epoch ${found.extensions.epoch}`}`;
    if (!found.errors) history.add(body.query);
  }

  async function follow(body, more, running) {
    let events = 0;
    answer.begin();
    button.textContent = "Stop";
    told.textContent = "waiting for events";
    history.add(body.query);
    const options = { method: "POST", headers: { "Content-Type": "application/json", ...more }, body: JSON.stringify(body), signal: running.signal };
    await readEvents("graphql", options, (event) => {
      if (event?.event === "next" || (event?.data && event.event === "message")) {
        events += 1;
        answer.add(parseJson(event.data));
        told.textContent = counted(events, "event");
      }
    });
    told.textContent = `${counted(events, "event")}; the stream has ended`;
  }

  function halt() {
    page.running?.abort();
    page.running = null;
    button.textContent = "Run";
  }

  function keepAddress(body) {
    const next = addresses.write(["query"], { query: body.query, variables: variables.text(), operation: body.operationName });
    if (next.length < 8000) window.history.replaceState(null, "", next);
  }

  function layOut() {
    try { query.put(tidy(query.text())); } catch (error) { told.textContent = error.message; }
  }

  const toggle = make("button", { type: "button", text: "Docs", "aria-expanded": "true", onclick: () => { aside.hidden = !aside.hidden; toggle.setAttribute("aria-expanded", String(!aside.hidden)); } });
  if (matchMedia("(max-width: 900px)").matches) { aside.hidden = true; toggle.setAttribute("aria-expanded", "false"); }
  outlet.append(
    make("div", { class: "bar" }, make("h1", { text: "Query" }), make("span", { class: "grow" }), told, chooser, make("button", { type: "button", text: "Tidy", onclick: layOut }), toggle, button),
    make("div", { class: "workspace" },
      make("section", { class: "asking", "aria-label": "Question" }, query.element, side("Variables", variables, Boolean(variables.text())), side("Headers", headers, false)),
      answer.element, aside));
  changed(query.text());
  return { close: halt, update: (next) => { const text = next.query.get("query"); if (text !== null && text !== query.text()) query.put(text); } };
}

const side = (title, editor, open) => make("details", { open }, make("summary", { text: title }), editor.element);
