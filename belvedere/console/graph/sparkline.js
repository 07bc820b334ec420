// A small line of values over time. In: [{at, value}], what it shows. Out: elements.

import { draw, make } from "../dom.js";
import { short } from "../numbers.js";

const WIDTH = 600, HEIGHT = 60;

export function sparkline(points, title) {
  if (points.length < 2) return [make("p", { class: "quiet", text: `${title}: nothing yet.` })];
  const [first, last] = [points[0].at, points.at(-1).at];
  const most = Math.max(...points.map((p) => p.value), 1);
  const place = ({ at, value }) => `${(((at - first) / (last - first)) * WIDTH).toFixed(1)},${(HEIGHT - 4 - (value / most) * (HEIGHT - 8)).toFixed(1)}`;
  const text = `${title}: ${short(points.at(-1).value)} now, ${short(most)} at most`;
  return [
    draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": text, preserveAspectRatio: "none" },
      draw("polyline", { points: points.map(place).join(" "), class: "line" })),
    make("p", { class: "quiet", text }),
  ];
}
