// Why there is no row with some filters: where its rows vanish. In: an endpoint, filters. Out: a button that is replaced by the answer.

import { getJson } from "../api.js";
import { errorBox, make } from "../dom.js";
import { code } from "./definition.js";
import { part } from "./why.js";

const TESTS = {
  eq: (v) => `eq.${v}`, neq: (v) => `neq.${v}`, gt: (v) => `gt.${v}`, gte: (v) => `gte.${v}`, lt: (v) => `lt.${v}`, lte: (v) => `lte.${v}`,
  like: (v) => `like.${v}`, ilike: (v) => `ilike.${v}`, isNull: (v) => (v === "false" ? "is.not_null" : "is.null"),
  in: (v) => `in.(${listOf(v)})`, notIn: (v) => `not.in.(${listOf(v)})`,
  startsWith: (v) => `like.${escaped(v)}%`, contains: (v) => `like.%${escaped(v)}%`,
};
const escaped = (text) => text.replace(/[\\%_]/g, "\\$&");
const quoted = (text) => `"${text.trim().replace(/["\\]/g, "\\$&")}"`;
const listOf = (text) => text.split(",").map(quoted).join(",");
/** In patterns of REST an asterisk stands for `%`, so that it cannot be looked for. */
const canSay = ({ operator, value }) => operator in TESTS && !(/^(like|ilike|startsWith|contains)$/.test(operator) && value.includes("*"));

/** Whether the filters can be asked for; rows of templates and events are not. */
export const canAskWhyNot = (endpoint, filters) => !endpoint.hasEvents && !endpoint.parameters.length && filters.every(canSay);

function addressOf(endpoint, filters) {
  const query = filters.map((f) => `${encodeURIComponent(quoted(f.column))}=${encodeURIComponent(TESTS[f.operator](f.value))}`);
  return `rest/${encodeURIComponent(endpoint.name)}/why-not?${query.join("&")}`;
}

export function whyNotOf(endpoint, byName, filters) {
  const text = filters.length ? "Why is there no such row?" : "Why is it empty?";
  const box = make("div", { class: "why" });
  box.append(make("button", { type: "button", text, onclick: async () => box.replaceChildren(await answer(endpoint, byName, filters)) }));
  return box;
}

async function answer(endpoint, byName, filters) {
  try {
    const found = await getJson(addressOf(endpoint, filters));
    if (found.there) return make("p", { class: "quiet", text: "By now there is such a row: ask for the rows again." });
    return make("div", {}, found.sql && code(`SQL of ${found.view}`, found.sql), found.lost.map((lost) => wayOf(lost, byName)));
  } catch (error) {
    return errorBox(error);
  }
}

/** One way down to the operator at which the rows vanish. */
function wayOf({ view, words, through, steps, near, unfollowed }, byName) {
  return make("section", {}, make("h3", { text: [...new Set([...through, view])].join(" › ") }), make("p", { text: words }),
    steps.map((step) => make("p", { class: "hint", text: `on the way: ${step}` })),
    near.map((read) => part(read, "", byName)),
    unfollowed.map((test) => make("p", { class: "hint", text: `not followed: ${test}` })));
}
