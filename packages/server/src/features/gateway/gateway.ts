import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { limits as contractLimits, type ErrorCode, eventTypes } from '@wardline/contract'
import { onlyName } from '@wardline/text'
import { readUpstreams, type Upstream } from '../../config/gateway.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { plainAddress } from '../../http/actor.ts'
import { mayActFor, mayBeAgent, type Principal } from '../../http/auth.ts'
import { httpLimits } from '../../http/limits.ts'
import { type RoomOwner, SharedRoom } from '../../shared-room.ts'
import type { ModelDrills } from '../drills/model-drills.ts'
import type { CountedReports } from '../events/counted-reports.ts'
import type { Ingest } from '../events/ingest.ts'
import type { DecoyChecks } from '../honeypots/check.ts'
import { assertMayCall, modelOf } from './allowed-models.ts'
import type { ModelBudgets } from './budgets.ts'
import { type CallBody, CallBodyReader, CallBytes } from './call-body.ts'
import { type AgentParts, CallingAgents, suspendedText } from './calling-agents.ts'
import { cutAll, Exchange, type ExchangeResult, largeChunk } from './exchange.ts'
import { type FormatError, formats, Refusal } from './formats.ts'
import { type Cost, countCall, meter } from './metering.ts'
import { createOperations, findPrincipal, type KeyParts } from './operations.ts'
import { nameWithoutKeys, TextScans } from './text-scans.ts'

const limits = {
  /** Anthropic's maximum for a request, the largest of the providers. */
  bodyBytes: 32 * 1024 * 1024,
  /** Bodies that are being read or sent, together; one that may have to be sent again is kept until its answer begins. */
  allBodyBytes: 512 * 1024 * 1024,
  /** What clients that read slowly have not read, together: some 250 KiB each, until an answer is broken off. */
  unsentBytes: 256 * 1024 * 1024,
  /** Enough for a body of the maximum over a slow connection. */
  requestTimeoutMs: 120_000,
  headersTimeoutMs: 5_000,
  /** Clients send keys, versions and lists of beta features. */
  headerBytes: 16 * 1024,
  /** Bounds memory and sockets: a call takes two. */
  calls: 10_000,
  /** One agent must not take all calls. */
  callsPerInstance: 5_000,
  /** Characters of a model in its event. */
  modelText: 100,
} as const

const instanceIdForm = new RegExp(`^[a-z0-9_-]{1,${contractLimits.instanceId}}$`)

interface Parts extends AgentParts, KeyParts {
  ingest: Pick<Ingest, 'own' | 'store'>
  modelBudgets: Pick<ModelBudgets, 'prices' | 'reserve' | 'settle'>
  decoyChecks: DecoyChecks
  countedReports: CountedReports
  modelDrills: Pick<ModelDrills, 'serve'>
}

export interface Gateway {
  port: number
  /** Accepts no more calls, and cuts those that are still open after `graceMs`. */
  close(graceMs: number): Promise<void>
}

const statuses: Partial<Record<ErrorCode, FormatError['status']>> = {
  invalid: 400,
  unauthorized: 401,
  forbidden: 403,
  instance_limit: 403,
  quota_exceeded: 429,
  too_many_failures: 429,
  overloaded: 503,
}

/** Returns undefined if the call was not refused, but could not be checked. */
function refusalOf(fault: unknown): FormatError | undefined {
  if (fault instanceof Refusal) return { status: fault.status, message: fault.message }
  const status = fault instanceof AppError ? statuses[fault.code] : undefined
  return (
    status && { status, message: (fault as AppError).message, isFinal: (fault as AppError).code === 'quota_exceeded' }
  )
}

const uncheckedError: FormatError = {
  status: 503,
  message: 'Wardline cannot check now whether this agent may go on; retry in a moment.',
}

/** Returns the path and query for the upstream, without a key that a client of Gemini put into the query. */
function upstreamPath({ kind }: Upstream, below: string, query: string | undefined): string {
  const kept = query?.split('&').filter((part) => !/^key(=|$)/i.test(part)) ?? []
  return `${below.slice(formats[kind].prefix.length)}${kept.length > 0 ? `?${kept.join('&')}` : ''}`
}

/** Passes the calls of agents to their models, refuses those of suspended agents, and cuts the ones that are open. */
class ModelGateway {
  readonly #deps: Deps
  readonly #parts: Parts
  readonly #upstreams: ReadonlyMap<string, Upstream>
  readonly scans: TextScans
  /** Open calls by instance. */
  readonly #open = new Map<string, Set<Exchange>>()
  readonly #agents: CallingAgents
  #calls = 0
  readonly #callRoom = new SharedRoom(limits.calls)
  readonly #bodyRoom = new SharedRoom(limits.allBodyBytes)
  readonly #unsentRoom = new SharedRoom(limits.unsentBytes)

  constructor(deps: Deps, parts: Parts) {
    this.#deps = deps
    this.#parts = parts
    this.scans = new TextScans(deps, parts)
    this.#upstreams = new Map(readUpstreams(deps.config).map((upstream) => [upstream.name, upstream]))
    this.#agents = new CallingAgents(deps, parts)
    deps.bus.onControl((message) => {
      const { instance_id: id, action, reason = null } = message
      const open = this.#open.get(id)
      if (action === 'suspend') cutAll(open ?? [], suspendedText(reason))
      this.#agents.hear(message, open !== undefined)
    })
    parts.modelDrills.serve((id) => this.#open.get(id)?.size ?? 0)
  }

  /** Handles one request. Never rejects. */
  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [path = '', query] = (request.url ?? '').split('?', 2)
    const [, name = '', below = ''] = /^\/([a-z0-9][a-z0-9_-]{0,39})(\/.*)?$/.exec(path) ?? []
    const upstream = this.#upstreams.get(name)
    if (!upstream) {
      response.writeHead(404, { 'content-type': 'application/json', connection: 'close' })
      const known = [...this.#upstreams.keys()].map((known) => `/${known}`).join(', ')
      return void response.end(JSON.stringify({ error: { message: `Unknown path. This gateway serves ${known}.` } }))
    }
    const exchange = new Exchange(request, response, upstream)
    const { clock, metrics, log } = this.#deps
    const startedAt = clock.monotonic()
    exchange.onFirstByte = () =>
      metrics.gatewayFirstByteSeconds.observe({ upstream: name }, (clock.monotonic() - startedAt) / 1000)
    metrics.gatewayOpenCalls.inc({ upstream: name })
    let instanceId: string | undefined
    let taken: RoomOwner | undefined
    this.#calls += 1
    try {
      const route = formats[upstream.kind].routes.find(
        ([method, form]) => method === request.method && form.test(below),
      )
      if (!route) throw new Refusal(404, `The gateway does not pass on ${request.method} ${path.slice(0, 200)}.`)
      const principal = await this.#principalOf(request)
      const id = this.#instanceOf(request, principal)
      // The agents of a key for several share what the key may have.
      const owner = { keyId: principal.keyId, instanceId: onlyName(principal.instances ?? []) ? undefined : id }
      this.#admit(id, owner, exchange)
      instanceId = id
      taken = owner
      const isChecked = await this.#agents.assertActive(id, principal, plainAddress(request.socket.remoteAddress))
      const call = { id, isChecked, principal, owner, upstream, below, query }
      const { metered, model } = await this.#pass(exchange, request, call)
      const result = await exchange.ended
      const cost = metered.costOf(result)
      countCall(metrics, name, metered.price, result, cost)
      this.#report(id, { upstream, model, ms: clock.monotonic() - startedAt, result, cost })
    } catch (fault) {
      const refusal = refusalOf(fault)
      exchange.refuse(refusal ?? uncheckedError, fault instanceof AppError ? fault.retryAfterSeconds : undefined)
      const outcome = fault instanceof Refusal ? fault.outcome : refusal ? 'refused' : 'unavailable'
      metrics.gatewayCalls.inc({ upstream: name, outcome })
      if (!(fault instanceof Refusal || fault instanceof AppError))
        log.error({ err: fault }, 'a call through the gateway failed')
    } finally {
      this.#calls -= 1
      if (taken) this.#callRoom.give(1, taken)
      metrics.gatewayOpenCalls.dec({ upstream: name })
      const open = instanceId === undefined ? undefined : this.#open.get(instanceId)
      open?.delete(exchange)
      if (open?.size === 0) this.#open.delete(instanceId!)
    }
  }

  /** Reads the body and passes the call on. Its frame ends with that: an answer, which takes minutes, must not hold the body. */
  async #pass(exchange: Exchange, request: IncomingMessage, call: AdmittedCall) {
    const { id, isChecked, principal, owner, upstream, below, query } = call
    const { bytes, read } = await this.#bodyOf(request, owner)
    void exchange.bodyLeft.then(() => this.#bodyRoom.give(bytes.length, owner))
    const asked = { upstream, path: below, body: read }
    const named = modelOf(asked)
    const model = named === undefined ? null : nameWithoutKeys(named).slice(0, limits.modelText)
    assertMayCall(principal, request.method, asked)
    const metered = await meter(this.#budgets(isChecked), exchange, {
      ...asked,
      instanceId: id,
      method: request.method,
      bytes: bytes.length,
    })
    if (!exchange.isOver) {
      const address = plainAddress(request.socket.remoteAddress)
      const scanned = { instanceId: id, principal, owner, address, upstream: upstream.name, model }
      const scan = this.scans.open(scanned, bytes, exchange.ended)
      exchange.copyTo((isStream) => scan.readAnswer(isStream))
      exchange.pass(upstreamPath(upstream, below, query), bytes, this.#unsentRoom, owner)
    }
    return { metered, model }
  }

  /** Returns the caller. The key stands where the provider's key would. */
  async #principalOf({ headers, socket }: IncomingMessage): Promise<Principal> {
    const bearer = /^Bearer +(\S+)$/i.exec(headers.authorization ?? '')?.[1]
    const presented = [headers['x-api-key'], headers['x-goog-api-key'], bearer].find((key) => typeof key === 'string')
    if (presented === undefined)
      throw new Refusal(401, 'A Wardline key is required in place of the key of the provider.')
    const address = plainAddress(socket.remoteAddress)
    const principal = await findPrincipal(this.#parts, presented as string, address)
    if (principal && mayBeAgent(principal)) return principal
    if (principal) throw new Refusal(403, `The scope ${principal.scope} does not allow this: use a key of scope agent.`)
    const waitSeconds = this.#parts.probing.badKey(address)
    if (waitSeconds === undefined) throw new Refusal(401, 'The Wardline key is not valid.')
    throw new AppError(
      'too_many_failures',
      'The key is not valid, and too many such keys came from this address.',
      waitSeconds,
    )
  }

  #instanceOf({ headers }: IncomingMessage, principal: Principal): string {
    const named = headers['wardline-instance'] ?? onlyName(principal.instances ?? [])
    if (typeof named !== 'string') {
      throw new Refusal(400, 'This key is for several agents: name yours in the header Wardline-Instance.')
    }
    if (!instanceIdForm.test(named)) throw new Refusal(400, 'Wardline-Instance is not the id of an agent.')
    if (!mayActFor(principal, named)) throw new Refusal(403, 'This key is bound to other agents.')
    return named
  }

  /** Registers the call before its agent is looked up: a kill in between cuts it. */
  #admit(instanceId: string, owner: RoomOwner, exchange: Exchange): void {
    const open = this.#open.get(instanceId) ?? new Set()
    if (open.size >= limits.callsPerInstance) {
      throw new Refusal(429, `This agent has ${limits.callsPerInstance} calls open: wait until one ends.`)
    }
    if (this.#calls > limits.calls) throw new AppError('overloaded', 'Too many calls are open.', 1)
    if (!this.#callRoom.take(1, owner)) {
      throw new Refusal(429, 'This key has as many calls open as the calls of other keys allow: wait until one ends.')
    }
    this.#open.set(instanceId, open.add(exchange))
  }

  #budgets(isChecked: boolean): Parts['modelBudgets'] {
    const { modelBudgets } = this.#parts
    return {
      prices: modelBudgets.prices,
      settle: (reservation, charged) => modelBudgets.settle(reservation, charged),
      reserve: async (instanceId, amount) => {
        if (!isChecked) return undefined
        return this.#agents.check(instanceId, () => modelBudgets.reserve(instanceId, amount))
      },
    }
  }

  async #bodyOf(request: IncomingMessage, owner: RoomOwner): Promise<{ bytes: CallBytes; read: CallBody }> {
    if (Number(request.headers['content-length'] ?? 0) > limits.bodyBytes) throw tooLarge
    const bytes = new CallBytes()
    const reader = new CallBodyReader(request.headers)
    try {
      for await (const chunk of request as AsyncIterable<Buffer>) {
        if (bytes.length + chunk.length > limits.bodyBytes) throw tooLarge
        if (!this.#bodyRoom.take(chunk.length, owner))
          throw new AppError('overloaded', 'Too many bodies are being read or sent.', 1)
        bytes.push(chunk)
        reader.push(chunk)
        if (chunk.length >= largeChunk) await nextTurn()
      }
      return { bytes, read: reader.end() }
    } catch (fault) {
      this.#bodyRoom.give(bytes.length, owner)
      // Leaving the loop also ends the request, so what was thrown in it is distinguished by its class.
      if (fault instanceof Refusal || fault instanceof AppError || !request.errored) throw fault
      throw new Refusal(400, 'The request ended before its body.')
    }
  }

  /** Stores the event of a call. It says nothing of the content. */
  #report(instanceId: string, { upstream, model, ms, result, cost }: Call): void {
    const { status, end, usage } = result
    const { ingest } = this.#parts
    const tokens = (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0)
    const ending = end === 'complete' ? '' : `, ${endings[end]}`
    const event = ingest.own({
      severity: 'info',
      event_type: eventTypes.modelCall,
      description: `Called ${model ?? 'a model'} of ${upstream.name}${tokens > 0 ? `: ${tokens} tokens` : ''}${ending}.`,
      instance_id: instanceId,
      metadata: {
        ...{ upstream: upstream.name, model, status, end, ms: Math.round(ms), ...usage, ...cost },
        // Names of tools are the agent's texts, as that of the model is.
        ...(usage.tools ? { tools: usage.tools.map(nameWithoutKeys) } : {}),
      },
    })
    ingest.store([event]).catch((fault) => this.#deps.log.warn({ err: fault }, 'the event of a model call is lost'))
  }
}

interface AdmittedCall {
  id: string
  isChecked: boolean
  principal: Principal
  owner: RoomOwner
  upstream: Upstream
  below: string
  query: string | undefined
}

interface Call {
  upstream: Upstream
  model: string | null
  ms: number
  result: ExchangeResult
  cost: Cost
}

const endings: Record<Exclude<ExchangeResult['end'], 'complete'>, string> = {
  refused: 'refused',
  cut: 'cut because the agent was suspended',
  left: 'ended by the client',
  broken: 'broken off by the upstream',
}

const tooLarge = new Refusal(413, `The body has more than ${limits.bodyBytes / 1024 / 1024} MiB.`)

/** Listens on WARDLINE_GATEWAY_PORT. Rejects if it cannot. */
export async function openGateway(deps: Deps, parts: Parts): Promise<Gateway> {
  const { config } = deps
  const gateway = new ModelGateway(deps, parts)
  const server = createServer({
    requestTimeout: limits.requestTimeoutMs,
    headersTimeout: limits.headersTimeoutMs,
    keepAliveTimeout: httpLimits.keepAliveMs,
    maxHeaderSize: limits.headerBytes,
  })
  const operation = createOperations(deps, parts)
  server.on('request', (request, response) => {
    const asked = request.method === 'GET' ? operation(request.url!) : undefined
    if (!asked) return void gateway.handle(request, response)
    asked(request, response).catch(() => response.destroy())
  })
  // Codex asks for a WebSocket first, and goes on without one after this answer.
  server.on('upgrade', (_request, socket) => {
    socket.end('HTTP/1.1 426 Upgrade Required\r\ncontent-length: 0\r\nconnection: close\r\n\r\n')
  })
  server.on('clientError', (_fault, socket) => void socket.destroy())
  server.listen(config.gatewayPort, config.gatewayHost ?? config.host)
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    async close(graceMs) {
      const closed = once(server, 'close')
      server.close()
      server.closeIdleConnections()
      const giveUp = setTimeout(() => server.closeAllConnections(), graceMs)
      await closed
      clearTimeout(giveUp)
      parts.modelDrills.serve(undefined)
      await gateway.scans.whenIdle()
    },
  }
}
