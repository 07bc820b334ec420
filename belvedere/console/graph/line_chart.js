// Lines of a number over time. In: series of [time, number], what they are. Out: an element. NULLs and what is no number break a line.

import { draw, make } from "../dom.js";
import { short } from "../numbers.js";
import { numberTicks, timeTicks } from "./ticks.js";

const HEIGHT = 320, LEFT = 56, RIGHT = 16, TOP = 12, BOTTOM = 28;

export function lineChart(series, { title, y, width = 860 }) {
  const points = series.flatMap((s) => s.points);
  if (!points.length) return make("p", { class: "empty", text: "No row has both a time and a number." });
  const xs = points.map((p) => p[0]), ys = points.map((p) => p[1]);
  const span = padded(Math.min(...xs), Math.max(...xs), 3_600_000), range = padded(Math.min(...ys), Math.max(...ys), 1);
  const x = (value) => LEFT + ((value - span[0]) / (span[1] - span[0])) * (width - LEFT - RIGHT);
  const top = (value) => HEIGHT - BOTTOM - ((value - range[0]) / (range[1] - range[0])) * (HEIGHT - TOP - BOTTOM);
  const times = timeTicks(...span, Math.max(2, Math.floor(width / 130)));
  const text = `${title}: ${points.length} points from ${new Date(span[0]).toISOString()} to ${new Date(span[1]).toISOString()}, between ${short(Math.min(...ys))} and ${short(Math.max(...ys))}`;
  const found = make("output", { class: "quiet", text: "Point at a line, or use the arrow keys, for its values." });
  const cursor = draw("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
  const svg = draw("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": text, tabindex: "0", class: "chart" },
    numberTicks(...range).map((v) => draw("g", {}, draw("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: top(v), y2: top(v) }), draw("text", { x: LEFT - 6, y: top(v) + 4, "text-anchor": "end", text: short(v) }))),
    times.ticks.map((at) => draw("text", { x: x(at), y: HEIGHT - 8, "text-anchor": x(at) > width - 40 ? "end" : "middle", text: times.text(at) })),
    cursor,
    series.map((s, n) => line(s.points, x, top, n)));
  follow(svg, cursor, found, series, [...new Set(xs)].sort((a, b) => a - b), x, width);
  return make("figure", {}, make("figcaption", {}, `${y} over time`, series.length > 1 && legend(series)), svg, found);
}

/** One value alone stands in the middle. */
const padded = (least, most, by) => (least === most ? [least - by, most + by] : [least, most]);

function line(points, x, top, n) {
  const place = ([at, value]) => `${x(at).toFixed(1)},${top(value).toFixed(1)}`;
  const dots = points.length <= 60 ? points.map((p) => draw("circle", { cx: x(p[0]), cy: top(p[1]), r: 2.5, class: `series-${n % 6}` })) : [];
  return draw("g", {}, draw("polyline", { points: points.map(place).join(" "), class: `line series-${n % 6}` }), dots);
}

const legend = (series) => make("ul", { class: "legend" }, series.map((s, n) => make("li", {}, make("span", { class: `swatch series-${n % 6}`, "aria-hidden": "true" }), s.name)));

/** Shows the values nearest to the pointer, or to where the arrow keys have come. */
function follow(svg, cursor, found, series, times, x, width) {
  let place = times.length - 1;
  function at(index) {
    place = Math.min(Math.max(index, 0), times.length - 1);
    const when = times[place];
    for (const name of ["x1", "x2"]) cursor.setAttribute(name, x(when));
    cursor.setAttribute("visibility", "visible");
    const values = series.flatMap((s) => s.points.filter((p) => p[0] === when).map((p) => `${series.length > 1 ? `${s.name}: ` : ""}${short(p[1])}`));
    found.textContent = `${new Date(when).toISOString().replace("T", " ").replace(".000Z", " UTC")}  ${values.slice(0, 8).join(", ")}`;
  }
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const wanted = ((event.clientX - box.left) / box.width) * width;
    at(times.reduce((best, t, n) => (Math.abs(x(t) - wanted) < Math.abs(x(times[best]) - wanted) ? n : best), 0));
  });
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity }[event.key];
    if (!step) return;
    event.preventDefault();
    at(place + step);
  });
}
