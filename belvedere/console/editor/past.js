// Queries that were run before, kept by the browser. In: what to do with one. Out: {element, add(text)}.

import { make } from "../dom.js";
import { local } from "../storage.js";

const MOST = 30;

function kept() {
  try { return JSON.parse(local.get("history") ?? "[]").filter((t) => typeof t === "string"); } catch { return []; }
}

export const remember = (text) => local.set("history", JSON.stringify([text, ...kept().filter((t) => t !== text)].slice(0, MOST)));

export function past(use) {
  const list = make("ul");
  const element = make("section", { class: "past", "aria-label": "Earlier queries" }, make("h2", { text: "Earlier queries" }), list);
  const fill = () => {
    const texts = kept();
    list.replaceChildren(...texts.map((text) => make("li", {}, make("button", { type: "button", class: "link", text: text.replace(/\s+/g, " ").slice(0, 70), title: text, onclick: () => use(text) }))));
    element.hidden = !texts.length;
  };
  fill();
  return { element, add(text) { remember(text); fill(); } };
}
