// How the run goes: epochs, rows per second, how fresh each view is, who holds a stream back, late and rejected rows; as it changes.

import * as addresses from "../addresses.js";
import { make, refresh, scrolling } from "../dom.js";
import { lineage } from "../lineage.js";
import { listen } from "../live.js";
import { bytes, counted, duration, short, time } from "../numbers.js";
import { rates } from "../rows/rates.js";
import { sparkline } from "../graph/sparkline.js";

export async function show(outlet) {
  const tiles = make("dl", { class: "tiles" });
  const inputs = make("tbody"), views = make("tbody");
  const speed = make("div", { class: "sparkline" });
  const graph = await lineage().catch(() => null);
  const measured = rates();

  outlet.append(
    make("h1", { text: "Status" }), tiles, speed,
    make("h2", { text: "Inputs" }),
    table("Inputs", ["Input", "Rows in", "Rows / s", "Late", "Rejected", "Event time", "Behind", "Held back by"], inputs),
    make("h2", { text: "Views" }),
    table("Views", ["View", "Changed", "In epoch", "Final below", "Changes / epoch", "Time / epoch", "Requests / s"], views));

  const stop = listen(({ state, status, received }) => {
    outlet.classList.toggle("stale", state === "gone" || state === "away");
    if (!status) return tiles.replaceChildren(tile("Server", WORDS[state]));
    measured.note(status, received);
    fillTiles(tiles, status, received, measured);
    speed.replaceChildren(...sparkline(measured.history, "Rows taken in per second since this page is open"));
    const inputRows = status.inputs.map((i) => inputRow(i, status, measured));
    const viewRows = (status.views ?? []).map((v) => viewRow(v, status, graph));
    refresh(inputs, inputRows.length ? inputRows : [nothing(8, "The script has no inputs.")]);
    refresh(views, viewRows.length ? viewRows : [nothing(7, status.epoch === null ? "There is no epoch yet." : "The script has no public views.")]);
  });
  const timer = setInterval(() => listen(({ status, received }) => status && fillTiles(tiles, status, received, measured))(), 1000);
  return { close() { stop(); clearInterval(timer); } };
}

const table = (label, heads, body) => scrolling(label, make("table", {}, make("thead", {}, make("tr", {}, heads.map((h) => make("th", { scope: "col", class: NUMBERS.has(h) ? "number" : undefined, text: h })))), body));
const WORDS = { connecting: "asking", away: "its store is away", gone: "gone", refused: "needs a token", unseen: "your token may not see the status" };
const NUMBERS = new Set(["Rows in", "Rows / s", "Late", "Rejected", "Behind", "In epoch", "Changes / epoch", "Time / epoch", "Requests / s"]);
const nothing = (columns, text) => make("tr", {}, make("td", { colspan: columns, class: "empty", text }));
const tile = (name, value, more, kind) => make("div", { class: kind ? `tile ${kind}` : "tile" }, make("dt", { text: name }), make("dd", {}, value, more && make("span", { class: "quiet", text: more })));
const cell = (text, kind) => make("td", { class: kind, text });

function fillTiles(tiles, status, received, measured) {
  const age = status.freshness_ms === undefined ? null : status.freshness_ms + Date.now() - received;
  const sum = (name) => status.inputs.reduce((total, input) => total + input.rows[name], 0);
  const seconds = status.epochs?.relations.reduce((total, r) => total + r.seconds, 0);
  tiles.replaceChildren(
    tile("Epoch", status.epoch === null ? "none yet" : short(status.epoch), age === null ? "" : `${duration(age)} ago`),
    tile("Rows in", short(sum("in")), `${short(measured.total)} / s`),
    tile("Late", short(sum("late")), "not used", sum("late") ? "warning" : ""),
    tile("Rejected", short(sum("malformed")), "malformed", sum("malformed") ? "warning" : ""),
    tile("A mean epoch", seconds === undefined ? "–" : duration(seconds * 1000), status.epochs ? `of ${status.epochs.measured} measured` : "not measured yet"),
    tile("State", status.state ? bytes(status.state.bytes ?? 0) : "–", status.state ? counted(status.state.rows ?? 0, "row") : ""),
    tile("Pushes", status.takes_pushes ? "on" : "off", status.takes_pushes ? "rows are taken in" : "no rows are taken in"));
}

function inputRow(input, status, measured) {
  const clock = input.event_time[0];
  const behind = clock?.watermark && status.as_of ? Date.parse(status.as_of) - Date.parse(clock.watermark) : null;
  const holders = input.event_time.flatMap((c) => c.held_back_by).map((name) => name ?? "the default producer");
  const changed = Object.entries(input.changed_files ?? {}).map(([how, count]) => `${counted(count, "file")} ${how}`).join(", ");
  return make("tr", {},
    make("th", { scope: "row" }, input.name, changed ? make("div", { class: "warning", text: `changed since the last read: ${changed}` }) : ""),
    cell(short(input.rows.in), "number"), cell(short(measured.of(input.name)), "number"),
    cell(short(input.rows.late), input.rows.late ? "number warning" : "number"), cell(short(input.rows.malformed), input.rows.malformed ? "number warning" : "number"),
    cell(clock ? `${clock.column}: ${time(clock.watermark)}${clock.assumed ? " (assumed)" : ""}` : "–"),
    cell(behind === null ? "–" : duration(behind), "number"),
    cell(holders.length ? [...new Set(holders)].join(", ") : "none", holders.length ? "warning" : "quiet"));
}

function viewRow(view, status, graph) {
  const known = (list) => list?.find((r) => r.name === view.id);
  const figures = known(status.epochs?.relations), requests = known(status.epochs?.requests);
  const endpoint = graph?.nodes.get(view.id)?.endpoint;
  const age = view.changed && status.committed_at ? Date.now() - Date.parse(view.changed.at) : null;
  return make("tr", {},
    make("th", { scope: "row" }, endpoint ? make("a", { href: addresses.view(endpoint), text: view.name }) : view.name),
    view.quarantine ? quarantined(view.quarantine) : cell(view.changed ? `${duration(Math.max(0, age))} ago` : "not yet"), cell(view.changed ? short(view.changed.epoch) : "–", "number"),
    cell(view.final.length ? view.final.map((f) => `${f.column}: ${time(f.below)}`).join(", ") : "–"),
    cell(figures ? short(figures.changed_rows) : "–", "number"), cell(figures ? duration(figures.seconds * 1000) : "–", "number"),
    cell(requests ? short(requests.per_second) : "–", "number"));
}

/** A view that failed, or reads one that did: since when, and why. */
function quarantined({ epoch, view, since, error, detail, hint }) {
  const held = epoch === null ? "in quarantine, without rows" : `in quarantine, as of epoch ${short(epoch)}`;
  return make("td", { class: "warning", title: [`since epoch ${since}: ${error}`, detail, hint].filter(Boolean).join("\n") }, held, make("span", { class: "quiet", text: ` ${error} (${view})` }));
}
