// PostGraphile 5 over one schema of a database, in so many processes: node postgraphile.mjs URL SCHEMA PORT PROCESSES CONNECTIONS
import cluster from "node:cluster";
import { createServer } from "node:http";
import { postgraphile } from "postgraphile";
import { makePgService } from "postgraphile/adaptors/pg";
import { grafserv } from "postgraphile/grafserv/node";
import { PostGraphileAmberPreset } from "postgraphile/presets/amber";

const [connectionString, schema, port, processes, connections] = process.argv.slice(2);

if (cluster.isPrimary) {
  process.stdin.on("end", () => process.exit()).resume();
  for (let i = 0; i < Number(processes); i++) cluster.fork();
} else {
  const served = postgraphile({
    extends: [PostGraphileAmberPreset],
    pgServices: [makePgService({ connectionString, schemas: [schema], poolConfig: { max: Number(connections) } })],
    grafserv: { graphiql: false, watch: false },
    schema: { defaultBehavior: "+list" }, // plain lists, which cost it less than connections do
  });
  const server = createServer();
  await served.createServ(grafserv).addTo(server);
  server.listen(Number(port), "127.0.0.1");
}
