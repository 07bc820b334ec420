// Pushes rows into an input that takes them: a form with a field for each column, or rows as JSON. What is refused is told at its field.

import * as addresses from "../addresses.js";
import { ask } from "../api.js";
import { errorBox, labelled, make, select } from "../dom.js";
import { current } from "../live.js";
import { parseJson, textOf } from "../numbers.js";
import { valueOf } from "../rows/question.js";
import { schema } from "../schema.js";

const EXAMPLES = { DateTime: "2024-01-31T08:00:00Z", Date: "2024-01-31", Int: "1", Long: "1", Float: "1.5", Decimal: "12.30", Duration: "PT1H30M", JSON: '{"a": 1}' };

export async function show(outlet, address) {
  const { pushes } = await schema();
  const names = Object.keys(pushes);
  outlet.append(make("h1", { text: "Push rows" }));
  if (current().status?.takes_pushes === false) outlet.append(make("p", { class: "notice", text: "This server takes no rows in: it serves a store that no run maintains now." }));
  if (!names.length) {
    outlet.append(make("p", { class: "empty", text: "No input of the script takes pushes: those of CREATE STREAM and CREATE TABLE do." }));
    return {};
  }
  const push = pushes[address.path[1]] ?? pushes[names[0]];
  const chosen = select(names.map((n) => [n]), push.name, { onchange: (event) => { location.hash = addresses.write(["push", event.target.value]); } });
  outlet.append(labelled("Input", chosen, push.doc), formOf(push), jsonOf(push));
  return {};
}

async function send(push, rows) {
  const query = `mutation($rows: [${push.rowType}!]!) { sent: ${push.name}(rows: $rows, wait: true) { taken dropped refused epoch results { index status code reason bound row { ${push.told.join(" ")} } } } }`;
  return (await ask(query, { rows })).data.sent;
}

// --- a form for one row

function formOf(push) {
  const told = make("div", { class: "result", "aria-live": "polite" });
  const fields = push.columns.map((c) => fieldOf(c, push));
  const button = make("button", { class: "primary", text: "Push the row" });
  const form = make("form", { class: "push-form", "aria-label": `A row of ${push.name}`, novalidate: true, onsubmit: async (event) => {
    event.preventDefault();
    for (const field of fields) field.tell("");
    const row = Object.fromEntries(fields.map((f) => [f.name, f.value()]).filter(([, v]) => v !== undefined));
    button.disabled = true;
    try {
      const sent = await send(push, [row]);
      showResult(told, sent, push);
      blame(fields, sent.results[0]);
    } catch (error) {
      told.replaceChildren(errorBox(error));
    }
    button.disabled = false;
  } }, make("div", { class: "grid" }, fields.map((f) => f.box)), button);
  return make("section", {}, make("h2", { text: "One row" }), form, told);
}

function fieldOf(column, push) {
  const control = column.type === "Boolean" ? select([["", "NULL"], ["true"], ["false"]], "") : make(column.type === "JSON" ? "textarea" : "input", { autocomplete: "off", placeholder: EXAMPLES[column.type] ?? "" });
  const isDeletion = column.name === "_delete";
  const box = labelled(isDeletion ? "Delete the row with this key" : `${column.name}: ${column.written}`, control, column.doc ?? (column.required ? "must be given" : "empty is NULL"));
  const problem = make("p", { class: "problem-text", id: `problem-${push.name}-${column.name}` });
  box.append(problem);
  return {
    name: column.name, box, control,
    value: () => (control.value === "" ? undefined : valueOf(column.type, control.value)),
    tell(text) {
      problem.textContent = text;
      control.toggleAttribute("aria-invalid", Boolean(text));
      if (text) { control.setAttribute("aria-invalid", "true"); control.setAttribute("aria-errormessage", problem.id); }
    },
  };
}

/** Tells a refusal at the fields that it names; at none where it names none: then the result says it. */
function blame(fields, result) {
  if (!result || result.status === "TAKEN") return;
  const named = fields.filter((f) => result.reason?.includes(`"${f.name}"`) || result.reason?.includes(`\`${f.name}\``));
  for (const field of named) field.tell(result.reason);
  named[0]?.control.focus();
}

// --- several rows

function jsonOf(push) {
  const told = make("div", { class: "result", "aria-live": "polite" });
  const text = make("textarea", { rows: "5", spellcheck: "false", class: "code", placeholder: "[{…}, {…}]" });
  const problem = make("p", { class: "problem-text" });
  const form = make("form", { "aria-label": `Rows of ${push.name} as JSON`, onsubmit: async (event) => {
    event.preventDefault();
    problem.textContent = "";
    let rows;
    try { rows = parseJson(text.value); } catch (error) { problem.textContent = `This is no JSON: ${error.message}`; return; }
    try { showResult(told, await send(push, Array.isArray(rows) ? rows : [rows]), push); } catch (error) { told.replaceChildren(errorBox(error)); }
  } }, labelled("An object, or an array of objects", text, "At most 1,000 rows; values are those of JSON, so texts may be empty."), problem, make("button", { class: "primary", text: "Push the rows" }));
  return make("details", {}, make("summary", { text: "Several rows, as JSON" }), form, told);
}

function showResult(box, sent, push) {
  const counts = [["taken", sent.taken], ["dropped, since they are late", sent.dropped], ["refused", sent.refused]].filter(([, n]) => n);
  const text = counts.map(([word, n]) => `${n} ${word}`).join(", ") || "There was no row.";
  const wrong = sent.results.filter((r) => r.status !== "TAKEN");
  const taken = sent.results.find((r) => r.status === "TAKEN");
  box.replaceChildren(
    make("p", { class: wrong.length ? "problem" : "good", text: `${text}${sent.epoch === null || sent.epoch === undefined ? "" : `; epoch ${textOf(sent.epoch)} has them`}.` }),
    ...(wrong.length ? [make("ul", {}, wrong.slice(0, 20).map((r) => make("li", { text: `Row ${r.index + 1}: ${r.reason ?? "it is late"}${r.bound ? ` (the bound is ${r.bound})` : ""}` })))] : []),
    ...(taken?.row ? [make("p", { class: "quiet", text: `As it was taken: ${push.told.map((n) => `${n} ${taken.row[n] === null ? "NULL" : textOf(taken.row[n])}`).join(", ")}` })] : []));
}
