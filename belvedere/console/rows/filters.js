// The conditions of a view's page, and the parameters of a template. In: an endpoint, a state, what to do with a changed one. Out: elements.

import { labelled, make, select } from "../dom.js";
import { named, written } from "../schema.js";

const WORDS = {
  eq: "=", neq: "≠", gt: ">", gte: "≥", lt: "<", lte: "≤", in: "is one of", notIn: "is none of", isNull: "is NULL",
  like: "is like", ilike: "is like (any case)", startsWith: "starts with", contains: "contains",
};

export const wordOf = (operator) => WORDS[operator] ?? operator;

export function filters(endpoint, state, change) {
  const columns = endpoint.columns.filter((c) => endpoint.operators(c.name).length);
  if (!columns.length) return null;
  const chips = state.filters.map((f, n) => make("li", { class: "chip" },
    make("span", { text: `${f.column} ${f.operator === "isNull" && f.value === "false" ? "is not NULL" : wordOf(f.operator)}${f.operator === "isNull" ? "" : ` ${f.value}`}` }),
    make("button", { type: "button", class: "plain", "aria-label": `Remove the filter on ${f.column}`, text: "×", onclick: () => change({ filters: state.filters.filter((_, m) => m !== n) }) })));
  const column = select(columns.map((c) => [c.name]), columns[0].name, { "aria-label": "Column" });
  const operator = make("select", { "aria-label": "Comparison" });
  const value = make("input", { "aria-label": "Value", autocomplete: "off", size: "14" });

  function offer() {
    const known = endpoint.operators(column.value).flatMap((o) => (o === "isNull" ? [["isNull", "is NULL"], ["isNotNull", "is not NULL"]] : [[o, wordOf(o)]]));
    operator.replaceChildren(...known.map(([v, text]) => make("option", { value: v, text })));
    value.placeholder = { DateTime: "2024-01-31T08:00:00Z", Date: "2024-01-31", Boolean: "true" }[columns.find((c) => c.name === column.value).type] ?? "";
    hide();
  }
  const hide = () => { value.hidden = /^is(Not)?Null$/.test(operator.value); };
  column.addEventListener("change", offer);
  operator.addEventListener("change", hide);
  offer();

  const form = make("form", { class: "filter-form", "aria-label": "Add a filter", onsubmit: (event) => {
    event.preventDefault();
    const isNull = /^is(Not)?Null$/.test(operator.value);
    const made = isNull ? { column: column.value, operator: "isNull", value: operator.value === "isNull" ? "true" : "false" } : { column: column.value, operator: operator.value, value: value.value };
    change({ filters: [...state.filters, made] });
  } }, column, operator, value, make("button", { text: "Add filter" }));
  return make("div", { class: "filters" }, chips.length ? make("ul", { class: "chips", "aria-label": "Filters" }, chips) : null, form);
}

/** A form for the parameters of a template. */
export function parameterForm(endpoint, state, change) {
  if (!endpoint.parameters.length) return null;
  const inputs = endpoint.parameters.map((p) => {
    const given = state.parameters[p.name] ?? "";
    const control = named(p.type).name === "Boolean" ? select([["", "–"], ["true"], ["false"]], given) : make("input", { value: given, autocomplete: "off" });
    return { name: p.name, control, box: labelled(`${p.name}: ${written(p.type)}`, control, p.description ?? (p.defaultValue ? `${p.defaultValue} where nothing is given` : undefined)) };
  });
  return make("form", { class: "parameters", "aria-label": "Parameters", onsubmit: (event) => {
    event.preventDefault();
    change({ parameters: Object.fromEntries(inputs.map((i) => [i.name, i.control.value === "" ? null : i.control.value])) });
  } }, inputs.map((i) => i.box), make("button", { class: "primary", text: "Ask" }));
}
