// What clients of JavaScript make of the API, as JSON on a line for each: node clients.mjs URL TOKEN
import { json } from "node:stream/consumers";
import { ApolloClient, HttpLink, InMemoryCache, gql } from "@apollo/client/core/index.js";
import { Client as Agent } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { PostgrestClient } from "@supabase/postgrest-js";
import { codegen } from "@graphql-codegen/core";
import * as typescript from "@graphql-codegen/typescript";
import * as operations from "@graphql-codegen/typescript-operations";
import { cacheExchange, createClient as urqlClient, fetchExchange } from "@urql/core";
import { buildSchema, parse } from "graphql";
import { createClient as wsClient } from "graphql-ws";
import ts from "typescript";
import WebSocket from "ws";

const { url, policies, query, by_key: byKey, aggregates, page } = await json(process.stdin);
const headers = { Prefer: "longs=text" };
const tell = (name, value) => console.log(JSON.stringify([name, value]));
const attempt = async (name, run) => {
  try {
    tell(name, await run());
  } catch (error) {
    tell(name, { failed: `${error.message}\n${error.stack}` });
  }
};

const pages = (keyArgs = ["filter", "order"]) => ({
  keyArgs,
  merge: (there, came, { args }) =>
    there && args?.after ? { ...came, startCursor: there.startCursor, hasPreviousPage: there.hasPreviousPage, nodes: [...there.nodes, ...came.nodes] } : came,
});

await attempt("apollo", async () => {
  const cache = new InMemoryCache({ typePolicies: { ...policies, Query: { fields: { itemsPage: pages() } } } });
  const client = new ApolloClient({ link: new HttpLink({ uri: `${url}/graphql`, headers, fetch }), cache });
  const ask = async (text, variables) => (await client.query({ query: gql(text), variables })).data;
  const rows = await ask(query);
  const one = await ask(byKey, { id: rows.items[1].id });
  const groups = await ask(aggregates);
  const first = await client.query({ query: gql(page), variables: { first: 2 } });
  const after = first.data.itemsPage.endCursor;
  await client.query({ query: gql(page), variables: { first: 2, after }, fetchPolicy: "network-only" });  // as `fetchMore` does
  const both = client.readQuery({ query: gql(page), variables: { first: 2 } });
  return { rows, one, groups, page: both.itemsPage.nodes.map((n) => n.id) };
});

await attempt("urql", async () => {
  const client = urqlClient({ url: `${url}/graphql`, exchanges: [cacheExchange, fetchExchange], fetchOptions: { headers }, preferGetMethod: false });
  const answers = [];
  for (const [text, variables] of [[query, {}], [aggregates, {}], [byKey, { id: "1" }]]) {
    const answer = await client.query(text, variables).toPromise();
    if (answer.error) throw answer.error;
    answers.push(answer.data);
  }
  return answers;
});

await attempt("graphql-ws", async () => {
  const client = wsClient({ url: `${url.replace("http", "ws")}/graphql`, webSocketImpl: WebSocket, connectionParams: { longs: "text" } });
  const live = client.iterate({ query: `subscription ${query}` });
  const told = (await live.next()).value;
  await live.return();
  await client.dispose();
  return told.data;
});

await attempt("codegen", async () => {
  const sdl = await (await fetch(`${url}/schema.graphql`)).text();
  const document = parse(`query All ${query.trim()} ${byKey.replace("query(", "query One(")} ${aggregates.replace("{", "query Groups {")}`);
  const scalars = { Long: "string", Decimal: "string", DateTime: "string", Date: "string", JSON: "unknown" };
  const output = await codegen({
    schema: parse(sdl), schemaAst: buildSchema(sdl), documents: [{ document }], filename: "types.ts",
    plugins: [{ typescript: { scalars, strictScalars: false } }, { operations: {} }], pluginMap: { typescript, operations }, config: { scalars },
  });
  const use = "\nexport const id = (a: AllQuery): string => a.items[0]!.id;\nexport const variables: OneQueryVariables = { id: '1' };\n";
  const host = ts.createCompilerHost({});
  const read = host.getSourceFile;
  host.getSourceFile = (name, ...rest) => (name === "types.ts" ? ts.createSourceFile(name, output + use, ts.ScriptTarget.ES2022) : read(name, ...rest));
  const program = ts.createProgram(["types.ts"], { strict: true, noEmit: true, target: ts.ScriptTarget.ES2022, types: [] }, host);
  return { lines: output.length > 1000, wrong: ts.getPreEmitDiagnostics(program).map((d) => ts.flattenDiagnosticMessageText(d.messageText, "\n")) };
});

await attempt("postgrest", async () => {
  const client = new PostgrestClient(`${url}/rest`, { headers, schema: "public" });
  const read = async (asked) => {
    const { data, error, count } = await asked;
    if (error) throw new Error(JSON.stringify(error));
    return count === null ? data : { data, count };
  };
  return {
    list: await read(client.from("items").select("id,name,sizes").eq("name", "bell").order("id")),
    single: await read(client.from("items").select("id").eq("id", "9007199254740993").single()),
    counted: await read(client.from("items").select("id", { count: "exact" }).order("id").range(0, 1)),
    related: await read(client.from("items").select("name,bids(price)").eq("id", "1")),
    posted: await read(client.rpc("itemsOf", { name: "bell" }).select("id").order("id")),
    got: await read(client.rpc("itemsOf", { name: "bell" }, { get: true }).eq("id", "2").select("id")),
  };
});

await attempt("mcp", async () => {
  const agent = new Agent({ name: "test", version: "1" });
  await agent.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit: { headers } }));
  const { tools } = await agent.listTools();
  const call = async (name, given) => {
    const told = await agent.callTool({ name, arguments: given });
    if (told.isError) throw new Error(JSON.stringify(told.content));
    return told.structuredContent;
  };
  const told = {
    names: tools.map((t) => t.name),
    views: (await call("list_views", {})).views.map((v) => v.name),
    described: (await call("describe_view", { view: "Items" })).key,
    rows: (await call("query_view", { view: "Items", columns: ["id", "place", "sizes"], order: [{ id: "ASC" }], limit: 1 })).rows,
    whole: Object.keys((await call("query_view", { view: "Items", limit: 1 })).rows[0]),
    named: (await call("itemsOf", { name: "bell" })).rows.map((r) => r.id),
    why: (await call("why_row", { view: "Items", key: { id: "1" } })).view,
    why_not: (await call("why_not", { view: "Dear", filter: { id: { eq: "1" } } })).view,
  };
  await agent.close();
  return told;
});

process.exit(0);
