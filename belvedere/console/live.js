// The status of the server as it changes. Out: to each listener `{state, status, received, since}`; `state` is "connecting", "live", "away"
// (the server is there, its store is not), "gone", "refused" (a token is missing) or "unseen" (the token has no right to the status: the
// server is there). A stream that breaks off, or is silent for too long, is opened again.

import { readEvents } from "./api.js";
import { parseJson } from "./numbers.js";

const SILENCE = 9000; // the server tells something every three seconds
const PAUSE = 1000;
const CALM = 5000; // between two questions that are answered with a refusal

const listeners = new Set();
let now = { state: "connecting", status: null, received: 0, since: Date.now() };

export const current = () => now;

export function listen(told) {
  listeners.add(told);
  told(now);
  return () => listeners.delete(told);
}

function become(state, more = {}) {
  const since = state === now.state ? now.since : Date.now();
  now = { ...now, ...more, state, since };
  for (const told of listeners) told(now);
}

let wake = () => {};
/** Tries at once: there is another token. */
export const tryAgain = () => wake();

export async function watch() {
  for (;;) {
    const broken = new AbortController();
    let timer = setTimeout(() => broken.abort(), SILENCE);
    try {
      await readEvents("status/events", { signal: broken.signal }, (event) => {
        clearTimeout(timer);
        timer = setTimeout(() => broken.abort(), SILENCE);
        const status = event && parseJson(event.data);
        if (status && !status.errors) become(status.store === "away" ? "away" : "live", { status, received: Date.now() });
      });
      become("gone");
    } catch (error) {
      become({ 401: "refused", 403: "unseen" }[error.status] ?? "gone");
    }
    clearTimeout(timer);
    await new Promise((resolve) => { wake = resolve; setTimeout(resolve, now.state === "unseen" ? CALM : PAUSE); });
  }
}
