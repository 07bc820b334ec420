// One subscription by a reference client: `node subscribe.mjs CONFIG`, a JSON object. What the client tells comes as JSON, a line each.
// A line on standard input ends the subscription as its user would; the end of the input ends the program.
import { createInterface } from 'node:readline'
import { createClient as sseClient } from 'graphql-sse'
import { createClient as wsClient } from 'graphql-ws'
import { EventSource } from 'eventsource'
import WebSocket from 'ws'

const config = JSON.parse(process.argv[2])
const { url, query, variables = {}, token, resume, retries = 0, keepAlive = 0, twice = false } = config
const tell = (what, value = null) => process.stdout.write(JSON.stringify([what, value]) + '\n')
const soon = () => new Promise((done) => setTimeout(done, 100))
const request = { query, variables }

const sink = {
  next: (result) => {
    // the clients send the request again as it is then: from the last event on
    if (resume && result.data) variables[resume] = Object.values(result.data)[0]._seq
    tell('next', result)
  },
  error: (error) => {
    const { code, reason, response } = error
    tell('error', Array.isArray(error) ? error : (code ?? response?.status ?? String(error)))
  },
  complete: () => tell('complete')
}

function overSse() {
  const headers = token ? { authorization: `Bearer ${token}` } : {}
  const client = sseClient({ url, headers, retryAttempts: retries, retry: soon, on: { connected: (again) => tell('connected', again) } })
  return client.subscribe(request, sink)
}

function overWebSocket() {
  const client = wsClient({
    url: url.replace('http', 'ws'),
    webSocketImpl: WebSocket,
    connectionParams: token ? { authorization: `Bearer ${token}` } : undefined,
    retryAttempts: retries,
    retryWait: soon,
    shouldRetry: () => true,
    keepAlive,
    generateID: twice ? () => 'one' : undefined,
    on: {
      connected: (socket, payload, again) => tell('connected', again),
      pong: (received) => received && tell('pong')
    }
  })
  if (twice) client.subscribe(request, { next: () => {}, error: () => {}, complete: () => {} })
  return client.subscribe(request, sink)
}

function byEventSource() {
  const source = new EventSource(url)
  source.addEventListener('open', () => tell('connected'))
  source.addEventListener('message', (event) => tell('next', [event.lastEventId, JSON.parse(event.data)]))
  source.addEventListener('error', (event) => {
    if (event.data) tell('told', JSON.parse(event.data))
    else tell(source.readyState === source.CLOSED ? 'error' : 'again', event.code ?? null)
  })
  return () => source.close()
}

const end = { 'graphql-sse': overSse, 'graphql-ws': overWebSocket, eventsource: byEventSource }[config.client]()
createInterface({ input: process.stdin }).on('line', end).on('close', () => process.exit(0))
