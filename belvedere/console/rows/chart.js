// The chart of a view that has a time and a number: which columns, and the latest rows that the filters leave. Out: an element.

import { ask } from "../api.js";
import { errorBox, labelled, make, select } from "../dom.js";
import { lineChart } from "../graph/line_chart.js";
import { textOf } from "../numbers.js";
import { NUMBERS, TIMES } from "../schema.js";
import { sampleRequest } from "./question.js";

const ROWS = 1000, SERIES = 6;

const timesOf = (endpoint) => endpoint.columns.filter((c) => TIMES.has(c.type) && !c.written.includes("["));
const numbersOf = (endpoint) => endpoint.columns.filter((c) => NUMBERS.has(c.type) && !c.written.includes("["));
export const hasChart = (endpoint) => timesOf(endpoint).length > 0 && numbersOf(endpoint).length > 0;

/** What is drawn where the address does not say: a number that is no part of the key, a line for each of its other part. */
function choiceOf(endpoint, state, key) {
  const times = timesOf(endpoint), numbers = numbersOf(endpoint);
  const known = (list, name) => list.find((c) => c.name === name)?.name;
  const x = known(times, state.chart.x) ?? (times.find((c) => key.includes(c.name)) ?? times[0]).name;
  const y = known(numbers, state.chart.y) ?? (numbers.find((c) => !key.includes(c.name)) ?? numbers[0]).name;
  const parts = endpoint.columns.filter((c) => c.name !== x && c.name !== y && !TIMES.has(c.type) && c.type !== "JSON");
  const by = state.chart.by === "-" ? "-" : known(parts, state.chart.by) ?? parts.find((c) => key.includes(c.name))?.name ?? "-";
  return { x, y, by, parts };
}

export async function chartOf(endpoint, state, key, change) {
  const choice = choiceOf(endpoint, state, key);
  const set = (name) => (event) => change({ chart: { ...state.chart, [name]: event.target.value } });
  const controls = make("div", { class: "controls" },
    labelled("Time", select(timesOf(endpoint).map((c) => [c.name]), choice.x, { onchange: set("x") })),
    labelled("Number", select(numbersOf(endpoint).map((c) => [c.name]), choice.y, { onchange: set("y") })),
    labelled("A line for each", select([["-", "none"], ...choice.parts.map((c) => [c.name])], choice.by, { onchange: set("by") })));
  const box = make("div", {}, controls);
  try {
    const order = endpoint.orderType ? { column: choice.x, descending: true } : null;
    const { query, variables } = sampleRequest(endpoint, state, order, ROWS);
    const { data } = await ask(query, variables);
    const { series, others } = seriesOf(data.rows, choice);
    const width = Math.max(360, Math.min(1100, document.getElementById("main").clientWidth - 40));
    box.append(lineChart(series, { title: endpoint.title, y: choice.y, width }));
    const notes = [data.rows.length === Math.min(ROWS, endpoint.most) && `the latest ${data.rows.length} rows`, others && `${others} more lines are left out: filter by ${choice.by}`].filter(Boolean);
    if (notes.length) box.append(make("p", { class: "hint", text: notes.join("; ") }));
  } catch (error) {
    box.append(errorBox(error));
  }
  return box;
}

function seriesOf(rows, { x, y, by }) {
  const groups = new Map();
  for (const row of rows) {
    if (row[x] === null || row[y] === null) continue;
    const point = [Date.parse(row[x]), Number(textOf(row[y]))];
    if (!point.every(Number.isFinite)) continue;
    const name = by === "-" ? y : row[by] === null ? "NULL" : textOf(row[by]);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(point);
  }
  const all = [...groups].map(([name, points]) => ({ name, points: points.sort((a, b) => a[0] - b[0]) })).sort((a, b) => b.points.length - a.points.length);
  const series = all.slice(0, SERIES).sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  return { series, others: all.length - series.length };
}
