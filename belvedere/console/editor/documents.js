// A GraphQL document of the editor. In: its text. Out: its operations; the text laid out; a first query for an API.

import { parse, print } from "./codemirror.js";

/** The operations: {name, kind}; none where the text cannot be parsed yet. */
export function operationsOf(text) {
  try {
    return parse(text).definitions.filter((d) => d.kind === "OperationDefinition").map((d) => ({ name: d.name?.value ?? "", kind: d.operation }));
  } catch {
    return [];
  }
}

/** The text laid out; raises where it cannot be parsed, or where its comments would be lost. */
export function tidy(text) {
  const laidOut = print(parse(text));
  const strings = /"""[^]*?"""|"(?:[^"\\\n]|\\.)*"/g;
  if (text.replace(strings, "").includes("#")) throw new Error("comments would be lost: it stays as it is");
  return `${laidOut}\n`;
}

export function firstQuery(endpoints) {
  const first = Object.values(endpoints).find((e) => e.columns.length && !e.parameters.some((p) => p.type.kind === "NON_NULL"));
  if (!first) return "{\n  __typename\n}\n";
  return `query First {\n  ${first.name}(limit: 10) {\n${first.columns.slice(0, 8).map((c) => `    ${c.name}`).join("\n")}\n  }\n}\n`;
}
