// Asks the API: GraphQL, JSON and event streams, with the user's token. Out: data, or an `ApiError` with what went wrong and what to do.

import { parseJson } from "./numbers.js";
import { session } from "./storage.js";

export class ApiError extends Error {
  constructor(message, { hint, status, code, locations } = {}) {
    super(message);
    Object.assign(this, { hint, status, code, locations });
  }
}

const refused = new Set();
/** Calls `then` when a request was refused for want of a token. */
export const onRefused = (then) => refused.add(then);

function headersFor(given) {
  const token = session.get("token");
  return { Prefer: "longs=number", ...(token ? { Authorization: `Bearer ${token}` } : {}), ...given };
}

async function request(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { ...options, headers: headersFor(options.headers) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("the server does not answer", { hint: "it is asked again by itself as soon as it is back", status: 0 });
  }
  if (answer.status === 401) for (const told of refused) told();
  return answer;
}

/** The error that an answer holds: problem+json, GraphQL errors, or text. */
async function errorOf(answer) {
  const text = await answer.text();
  try {
    const found = parseJson(text);
    if (found.errors) return ofGraphql(found.errors[0], answer.status);
    return new ApiError(found.title ?? found.message ?? text, { hint: found.hint, status: answer.status, code: found.code });
  } catch {
    return new ApiError(text.trim() || `the server answered with status ${answer.status}`, { status: answer.status });
  }
}

const ofGraphql = (error, status) => new ApiError(error.message, { ...error.extensions, locations: error.locations, status });

export async function getJson(path) {
  const answer = await request(path, { headers: { Accept: "application/json" } });
  if (!answer.ok) throw await errorOf(answer);
  return parseJson(await answer.text());
}

/** The whole answer of a GraphQL request, errors and all. */
export async function post(body, { headers, signal } = {}) {
  const answer = await request("graphql", { method: "POST", headers: { "Content-Type": "application/json", ...headers }, body: JSON.stringify(body), signal });
  const text = await answer.text();
  try {
    const found = parseJson(text);
    if (found && (found.data !== undefined || found.errors)) return found;
    return { errors: [{ message: found?.title ?? text, extensions: { hint: found?.hint, code: found?.code } }] };
  } catch {
    return { errors: [{ message: text.trim() || `the server answered with status ${answer.status}` }] };
  }
}

/** The data of a GraphQL request, with its extensions; raises its first error. */
export async function ask(query, variables, options) {
  const answer = await post({ query, variables }, options);
  if (answer.errors?.length) throw ofGraphql(answer.errors[0]);
  return { data: answer.data, extensions: answer.extensions };
}

/** Reads server-sent events until they end; calls `told` with {event, data, id} of each, and with null for a sign of life. */
export async function readEvents(path, options, told) {
  const answer = await request(path, { ...options, headers: { Accept: "text/event-stream, application/json;q=0.5", ...options.headers } });
  if (!answer.ok || !answer.headers.get("content-type")?.startsWith("text/event-stream")) throw await errorOf(answer);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (waiting + value).split("\n\n");
    waiting = parts.pop();
    for (const part of parts) told(eventOf(part));
  }
}

function eventOf(text) {
  const found = { event: "message", data: "" };
  for (const line of text.split("\n")) {
    const [name, ...rest] = line.split(": ");
    if (name === "data" && rest.length) found.data += (found.data ? "\n" : "") + rest.join(": ");
    else if (name === "event" || name === "id") found[name] = rest.join(": ");
  }
  return found.data || found.event === "complete" ? found : null;
}
