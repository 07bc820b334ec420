// The audits of GraphQL over HTTP by graphql-http: `node audit.mjs URL`. Prints the name of each that failed, and how many there are.
import { auditServer } from 'graphql-http'

const results = await auditServer({ url: process.argv[2], fetchFn: fetch })
const failed = results.filter((result) => result.status !== 'ok').map(({ name, reason }) => `${name}: ${reason}`)
process.stdout.write(JSON.stringify({ audits: results.length, failed }))
