// Rows per second, from one status to the next. In: statuses. Out: the rate of each input, of all, and the last minutes of the latter.

const MOST = 240;
const SPAN = 10_000; // milliseconds over which a rate is a mean

export function rates() {
  const seen = [];
  const history = [];

  function rate(count) {
    const last = seen.at(-1);
    const first = seen.find((s) => last.at - s.at <= SPAN) ?? last;
    return last && last.at > first.at ? (1000 * Math.max(0, count(last) - count(first))) / (last.at - first.at) : 0;
  }

  const total = (s) => Object.values(s.counts).reduce((sum, n) => sum + n, 0);
  return {
    history,
    get total() { return seen.length ? rate(total) : 0; },
    of: (name) => (seen.length ? rate((s) => s.counts[name] ?? 0) : 0),
    note(status, at) {
      if (seen.at(-1)?.at === at) return;
      seen.push({ at, counts: Object.fromEntries(status.inputs.map((i) => [i.name, i.rows.in])) });
      while (seen.length > 1 && at - seen[1].at > SPAN) seen.shift();
      history.push({ at, value: rate(total) });
      if (history.length > MOST) history.shift();
    },
  };
}
