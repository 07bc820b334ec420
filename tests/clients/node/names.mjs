// Whether generated types compile for a schema with any names, and what a cache keeps of its rows: node names.mjs < JSON
import { json } from "node:stream/consumers";
import { ApolloClient, HttpLink, InMemoryCache, gql } from "@apollo/client/core/index.js";
import { codegen } from "@graphql-codegen/core";
import * as typescript from "@graphql-codegen/typescript";
import * as operations from "@graphql-codegen/typescript-operations";
import { cacheExchange, createClient as urqlClient, fetchExchange } from "@urql/core";
import { PostgrestClient } from "@supabase/postgrest-js";
import { buildSchema, parse } from "graphql";
import ts from "typescript";

const { url, policies, query, variables, tables } = await json(process.stdin);
const tell = (name, value) => console.log(JSON.stringify([name, value]));

const apollo = new ApolloClient({ link: new HttpLink({ uri: `${url}/graphql`, fetch }), cache: new InMemoryCache({ typePolicies: policies }) });
tell("apollo", (await apollo.query({ query: gql(query), variables })).data);

const urql = urqlClient({ url: `${url}/graphql`, exchanges: [cacheExchange, fetchExchange], preferGetMethod: false });
const answer = await urql.query(query, variables).toPromise();
tell("urql", answer.error ? { failed: answer.error.message } : answer.data);

const rest = new PostgrestClient(`${url}/rest`);
const read = {};
for (const [table, column] of tables) {
  const { data, error } = await rest.from(table).select(column).order(column, { ascending: false }).limit(2);
  read[table] = error ? { failed: error } : data;
}
tell("postgrest", read);

const sdl = await (await fetch(`${url}/schema.graphql`)).text();
const output = await codegen({
  schema: parse(sdl), schemaAst: buildSchema(sdl), documents: [{ document: parse(query) }], filename: "types.ts",
  plugins: [{ typescript: {} }, { operations: {} }], pluginMap: { typescript, operations }, config: {},
});
const host = ts.createCompilerHost({});
const source = host.getSourceFile;
host.getSourceFile = (name, ...rest) => (name === "types.ts" ? ts.createSourceFile(name, output, ts.ScriptTarget.ES2022) : source(name, ...rest));
const program = ts.createProgram(["types.ts"], { strict: true, noEmit: true, target: ts.ScriptTarget.ES2022, types: [] }, host);
tell("codegen", ts.getPreEmitDiagnostics(program).map((d) => ts.flattenDiagnosticMessageText(d.messageText, "\n")));
process.exit(0);
