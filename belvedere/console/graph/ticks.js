// Round places on an axis. In: the least and the greatest value. Out: values; and texts of them.

export function numberTicks(least, most, count = 5) {
  if (least === most) [least, most] = [least - 1, most + 1];
  const raw = (most - least) / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
  const ticks = [];
  for (let n = Math.ceil(least / step); n * step <= most + step * 1e-9; n += 1) ticks.push(Number((n * step).toPrecision(12)));
  return ticks;
}

const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
const STEPS = [1, 10, 100, SECOND, 5 * SECOND, 15 * SECOND, 30 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 30 * DAY, 91 * DAY, 365 * DAY];

export function timeTicks(least, most, count = 5) {
  const step = STEPS.find((s) => (most - least) / s <= count) ?? Math.ceil((most - least) / count / (365 * DAY)) * 365 * DAY;
  const ticks = [];
  for (let at = Math.ceil(least / step) * step; at <= most; at += step) ticks.push(at);
  return { ticks, text: (at) => timeText(at, step) };
}

function timeText(at, step) {
  const iso = new Date(at).toISOString();
  if (step >= DAY) return iso.slice(0, 10);
  if (step >= MINUTE) return iso.slice(11, 16) === "00:00" ? iso.slice(5, 10) : iso.slice(11, 16);
  return step >= SECOND ? iso.slice(11, 19) : iso.slice(17, 23);
}
