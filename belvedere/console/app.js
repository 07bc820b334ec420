// The frame of the console: which page an address means, whether the server is there, the token, the colours.

import * as addresses from "./addresses.js";
import { onRefused } from "./api.js";
import { errorBox, make } from "./dom.js";
import * as lineage from "./lineage.js";
import { listen, tryAgain, watch } from "./live.js";
import { duration } from "./numbers.js";
import * as schema from "./schema.js";
import { local, session } from "./storage.js";

const PAGES = [["status", "Status"], ["views", "Views"], ["lineage", "Lineage"], ["query", "Query"], ["push", "Push"]];
const by = (id) => document.getElementById(id);
let shown = { page: null, path: "", close: null, update: null };
let turn = 0;

// --- pages

async function show() {
  const address = addresses.read();
  const name = PAGES.some(([n]) => n === address.path[0]) ? address.path[0] : "status";
  const path = address.path.join("/");
  if (shown.page === name && shown.path === path && shown.update) return shown.update(address);
  const mine = ++turn;
  shown.close?.();
  shown = { page: name, path };
  mark(name);
  const outlet = make("div", { class: `page ${name}` });
  const waits = setTimeout(() => { if (mine === turn) by("main").replaceChildren(make("p", { class: "empty", text: "Asking …" })); }, 400);
  try {
    const page = await import(`./pages/${name === "views" && address.path[1] ? "view" : name}.js`);
    const made = await page.show(outlet, address);
    if (mine !== turn) { clearTimeout(waits); return made?.close?.(); }
    shown = { ...shown, close: made?.close, update: made?.update };
  } catch (error) {
    if (mine !== turn) return;
    outlet.replaceChildren(make("h1", { text: PAGES.find(([n]) => n === name)[1] }), errorBox(error));
    shown = { page: name, path, failed: true };
  }
  clearTimeout(waits);
  const heading = outlet.querySelector("h1");
  document.title = `${heading?.textContent ?? "Belvedere"} – Belvedere`;
  by("main").replaceChildren(outlet);
  if (started) { by("main").focus({ preventScroll: true }); scrollTo(0, 0); }
  started = true;
}

let started = false;

function mark(name) {
  for (const link of by("pages").children) link.toggleAttribute("aria-current", link.dataset.page === name);
  for (const link of by("pages").querySelectorAll("[aria-current]")) link.setAttribute("aria-current", "page");
}

function anew() {
  schema.forget();
  lineage.forget();
  shown.close?.();
  shown = { page: null };
  show();
}

// --- the server

let before = "connecting";

function showConnection({ state, status, received, since }) {
  const box = by("connection");
  box.dataset.state = state;
  const age = status?.freshness_ms === undefined ? null : status.freshness_ms + (Date.now() - received);
  const texts = {
    connecting: "connecting",
    live: status && status.epoch !== null ? `epoch ${status.epoch}, ${age === null ? "" : `${duration(age)} ago`}` : "waiting for the first epoch",
    away: "store is away",
    gone: "server is gone",
    refused: "needs a token",
    unseen: "connected",
  };
  by("connection-text").textContent = texts[state];
  if (state === before) return;
  if (state === "gone") banner("problem", `The server does not answer since ${new Date(since).toLocaleTimeString()}. What you see is from before; it is asked again every second.`);
  if (state === "away") banner("problem", `The server cannot reach its store since ${new Date(since).toLocaleTimeString()}. What you see is from before; it is tried again every second.`);
  if (state === "live" || state === "unseen") {
    banner("good", { gone: "The server is back.", away: "The store is back." }[before] ?? "");
    if ((before === "gone" || before === "away") && shown.failed) anew();
  }
  by("token-form").hidden = state !== "refused";
  if (state === "refused") banner("", "");
  before = state;
}

function banner(kind, text) {
  by("banner").className = text ? kind : "";
  by("banner").textContent = text;
  if (kind === "good" && text) setTimeout(() => { if (by("banner").textContent === text) banner("", ""); }, 6000);
}

by("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  session.set("token", by("token").value.trim());
  by("token-form").hidden = true;
  tryAgain();
  anew();
});

// --- colours

const THEMES = ["auto", "light", "dark"];

function showTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  by("theme").textContent = { auto: "◐", light: "☀", dark: "☾" }[theme];
  by("theme").setAttribute("aria-label", `Colours: ${theme}`);
  by("theme").title = `Colours: ${theme}`;
}

by("theme").addEventListener("click", () => {
  const next = THEMES[(THEMES.indexOf(local.get("theme") ?? "auto") + 1) % THEMES.length];
  local.set("theme", next);
  showTheme(next);
});

by("skip").addEventListener("click", (event) => { event.preventDefault(); by("main").focus(); });
by("pages").append(...PAGES.map(([name, text]) => make("a", { href: `#/${name}`, text, data: { page: name } })));
showTheme(local.get("theme") ?? "auto");
onRefused(() => { by("token-form").hidden = false; });
listen(showConnection);
setInterval(() => listen(showConnection)(), 1000);
addEventListener("hashchange", show);
watch();
show();
