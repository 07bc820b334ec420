// What the schema says of its types and fields, to be read beside the editor. In: a schema. Out: {element, open(type, field)}.

import { make } from "../dom.js";
import { getNamedType, isEnumType, isInputObjectType, isInterfaceType, isObjectType } from "./codemirror.js";

export function docs(schema) {
  const box = make("div", { class: "docs-body" });
  const search = make("input", { type: "search", "aria-label": "Find a type or field", placeholder: "Find a type or field", oninput: () => list() });
  const element = make("section", { class: "docs", "aria-label": "Documentation" }, make("h2", { text: "Documentation" }), search, box);
  const past = [];

  const link = (type) => make("button", { type: "button", class: "link", text: String(type), onclick: () => open(getNamedType(type).name) });
  const roots = () => [schema.getQueryType(), schema.getMutationType(), schema.getSubscriptionType()].filter(Boolean);

  function list() {
    const wanted = search.value.trim().toLowerCase();
    if (!wanted) return start();
    const types = Object.values(schema.getTypeMap()).filter((t) => !t.name.startsWith("__"));
    const found = types.flatMap((t) => [
      ...(t.name.toLowerCase().includes(wanted) ? [[t.name, null]] : []),
      ...Object.keys(t.getFields?.() ?? {}).filter((f) => f.toLowerCase().includes(wanted)).map((f) => [t.name, f]),
    ]).slice(0, 60);
    box.replaceChildren(found.length ? make("ul", {}, found.map(([type, field]) => make("li", {}, make("button", { type: "button", class: "link", text: field ? `${type}.${field}` : type, onclick: () => open(type, field) })))) : make("p", { class: "quiet", text: "Nothing has that name." }));
  }

  function start() {
    past.length = 0;
    box.replaceChildren(make("p", { class: "quiet", text: "Ctrl and click in the query opens what it names. Ctrl and space completes." }), make("ul", {}, roots().map((t) => make("li", {}, link(t)))));
  }

  function open(name, field) {
    const type = schema.getType(name);
    if (!type) return;
    if (past.at(-1) !== name) past.push(name);
    const back = make("button", { type: "button", class: "link", text: "‹ back", onclick: () => { past.pop(); const before = past.pop(); if (before) open(before); else start(); } });
    box.replaceChildren(back, make("h3", { text: name }), type.description ? make("p", { text: type.description }) : "", parts(type, field));
    box.querySelector(".found")?.scrollIntoView({ block: "nearest" });
  }

  function parts(type, field) {
    if (isEnumType(type)) return make("ul", {}, type.getValues().map((v) => make("li", {}, make("code", { text: v.name }), v.description ? `  ${v.description}` : "")));
    if (!isObjectType(type) && !isInterfaceType(type) && !isInputObjectType(type)) return make("p", { class: "quiet", text: "A scalar." });
    return make("dl", {}, Object.values(type.getFields()).flatMap((f) => [
      make("dt", { class: f.name === field ? "found" : undefined }, make("code", { text: f.name }), ": ", link(f.type)),
      make("dd", {}, f.description ?? "", f.args?.length ? make("ul", {}, f.args.map((a) => make("li", {}, make("code", { text: a.name }), ": ", link(a.type), a.description ? `  ${a.description}` : ""))) : null),
    ]));
  }

  start();
  return { element, open };
}
