import { mkdtempSync, rmSync } from 'node:fs'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createClient, type EventRow, type KeyType, type Severity } from '@wardline/contract'
import { type RunningServer, readConfig, startServer } from '@wardline/server'
import { expect, vi } from 'vitest'
import { createMonitorWith } from '../agent-monitor.ts'
import type { MonitorError } from '../faults.ts'
import type { ControlChange, Monitor, MonitorOptions } from '../monitor.ts'
import type { Pace } from '../pace.ts'

const adminKey = 'the-administrator-key-of-the-tests-of-the-sdk'
export const agentId = 'agent-1'

/** Fast enough for a test, slow enough to distinguish push from poll. */
export const fastPace: Partial<Pace> = {
  poll: 600_000,
  pollWithoutStream: 50,
  reconnect: 20,
  maxReconnect: 100,
  request: 2_000,
  start: 2_000,
  batch: 5,
}

/** Waits for a condition. The timeout is generous, for busy machines. */
export const eventually = <Value>(check: () => Value) => vi.waitFor(check, { timeout: 20_000, interval: 5 })

/** Proxy between agent and service that can be cut. Forwards whole requests and answers, and records what was sent. */
class Wire {
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  /** Address that connections are forwarded to. */
  target: string
  /** `refuse` cuts connections immediately; `stall` leaves requests unanswered. */
  mode: 'pass' | 'refuse' | 'stall' = 'pass'
  /** Requests whose connection is cut (`cut`) or that stay unanswered (`stall`). */
  cut = /(?!)/
  stall = /(?!)/
  /** Requests whose connection is cut when the answer arrives. */
  cutAnswer = /(?!)/
  /** `requests` lists `<method> <path>` of each request; `sent` contains all bytes sent. */
  readonly requests: string[] = []
  sent = ''

  private constructor(target: string) {
    this.target = target
    this.#server = createServer((near) => this.#carry(near))
  }

  static async open(target: string): Promise<Wire> {
    const wire = new Wire(target)
    await new Promise<void>((resolve) => wire.#server.listen(0, '127.0.0.1', resolve))
    return wire
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as { port: number }).port}`
  }

  asked(request: RegExp): string[] {
    return this.requests.filter((line) => request.test(line))
  }

  /** Closes all open connections. */
  cutAll(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  async close(): Promise<void> {
    this.cutAll()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #carry(near: Socket): void {
    this.#keep(near)
    if (this.mode === 'refuse') return void near.destroy()
    let isCutting = false
    let isStalled = false
    const far = connect(Number(new URL(this.target).port), '127.0.0.1')
    this.#keep(far)
    near.on('data', (bytes) => {
      const text = bytes.toString('latin1')
      this.sent += text
      const request = /^(?:GET|POST|PUT|DELETE) [^\s?]+/.exec(text)?.[0]
      if (request !== undefined) {
        this.requests.push(request)
        if (this.mode === 'refuse' || this.cut.test(request)) return void near.destroy()
        isCutting = this.cutAnswer.test(request)
        isStalled = this.stall.test(request)
      }
      if (this.mode === 'pass' && !isStalled) far.write(bytes)
    })
    far.on('data', (bytes) => {
      if (isCutting) near.destroy()
      else if (this.mode === 'pass') near.write(bytes)
    })
    near.on('close', () => far.destroy())
    far.on('close', () => near.destroy())
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => this.#sockets.delete(socket))
  }
}

export interface Received {
  suspend: ControlChange[]
  resume: ControlChange[]
  error: MonitorError[]
}

/** A real service in a separate folder, a wire to it, and monitors connected through the wire. */
export class TestFleet implements AsyncDisposable {
  readonly folder = mkdtempSync(join(tmpdir(), 'wardline-sdk-'))
  wire!: Wire
  agentKey = ''
  readonly #monitors: Monitor[] = []
  #server: RunningServer | undefined
  #clocks = 0
  #env: Record<string, string> = {}

  /** `env` adds settings of the service. */
  static async open(env: Record<string, string> = {}): Promise<TestFleet> {
    const fleet = new TestFleet()
    fleet.#env = env
    fleet.wire = await Wire.open(await fleet.startService())
    fleet.agentKey = await fleet.createKey([agentId])
    return fleet
  }

  /** Starts the service on its existing data, at a new address. */
  async startService(): Promise<string> {
    const config = readConfig({
      PORT: '0',
      WARDLINE_DATA_DIR: join(this.folder, 'data'),
      // No rules, instead of the starter rules of a first start.
      WARDLINE_RULES_DIR: join(this.folder, 'data'),
      WARDLINE_API_KEY: adminKey,
      WARDLINE_LOG_LEVEL: 'silent',
      // Base address of decoys of kind url.
      WARDLINE_DECOY_URL: 'https://files.example.com',
      ...this.#env,
    })
    this.#server = await startServer(config)
    if (this.wire) this.wire.target = this.#server.url
    return this.#server.url
  }

  async stopService(): Promise<void> {
    this.wire.cutAll()
    await this.#server?.close()
    this.#server = undefined
  }

  get #call() {
    return createClient({ url: this.#server!.url, key: adminKey })
  }

  async createKey(instances: string[], more: { supervises?: boolean } = {}): Promise<string> {
    const { key } = await this.#call('createKey', { body: { scope: 'agent', name: 'test', instances, ...more } })
    return key
  }

  async createViewerKey(): Promise<string> {
    const { key } = await this.#call('createKey', { body: { scope: 'viewer', name: 'test' } })
    return key
  }

  kill(reason: string, instanceId = agentId) {
    return this.#call('killInstance', { params: { instanceId }, body: { reason } })
  }

  resume(instanceId = agentId) {
    return this.#call('resumeInstance', { params: { instanceId } })
  }

  instance(instanceId = agentId) {
    return this.#call('getInstance', { params: { instanceId } })
  }

  /** Returns what was reported of the configuration of an instance. */
  async configs(instanceId = agentId) {
    return (await this.#call('getConfig', { params: { instanceId } })).configs
  }

  /** Returns the suspensions of an instance, newest first. */
  async suspensions(instanceId = agentId) {
    const { suspensions } = await this.#call('listSuspensions', { params: { instanceId } })
    return suspensions
  }

  /** Runs a drill of the agent, and resolves with the report once the drill is over. */
  async drill(instanceId = agentId) {
    const { id } = await this.#call('startDrill', { body: { selector: { instances: [instanceId] } } })
    const read = () => this.#call('getDrill', { params: { id } })
    await vi.waitFor(async () => expect((await read()).state).toBe('complete'), { timeout: 60_000, interval: 100 })
    return read()
  }

  /** Returns all events of a type, newest first. */
  async events(eventType: string, severity?: Severity): Promise<EventRow[]> {
    const found: EventRow[] = []
    const query = { event_type: eventType, limit: '1000', ...(severity ? { severity } : {}) }
    for (let before: { before?: string } = {}; ; ) {
      const { events, next } = await this.#call('listEvents', { query: { ...query, ...before } })
      found.push(...events)
      if (next === null) return found
      before = { before: next }
    }
  }

  /** Waits more than 200 ms, measured by another agent that polls every 20 ms. */
  async letTimePass(): Promise<void> {
    const instanceId = `clock-${++this.#clocks}`
    const { monitor } = this.monitor(
      { instanceId, key: await this.createKey([instanceId]) },
      { poll: 20, pollWithoutStream: 20 },
    )
    await monitor.start()
    const polls = () => this.wire.asked(new RegExp(`/${instanceId}/status`)).length
    await eventually(() => expect(polls()).toBeGreaterThan(15))
    await monitor.stop()
  }

  /** Creates a decoy key and returns it. */
  async plantKey(keyType: KeyType, instanceId = agentId): Promise<string> {
    const { key } = await this.#call('createHoneypot', { body: { type: 'api_key', keyType, instanceId } })
    return key!
  }

  async plantPath(path: string, instanceId = agentId): Promise<string> {
    await this.#call('createHoneypot', { body: { type: 'file_path', path, instanceId } })
    return path
  }

  /** Stores a policy that is enforced. Returns its id and the version of the policy sets. */
  async addPolicy(policy: object): Promise<{ id: string; version: number }> {
    const { id, set_version } = await this.#call('createPolicy', { body: { mode: 'enforce', ...policy } as never })
    return { id, version: set_version }
  }

  async removePolicy(id: string): Promise<void> {
    await this.#call('deletePolicy', { params: { id } })
  }

  /** Waits until a call of an agent waits for a person. Returns it. */
  async pendingApproval(instanceId = agentId) {
    const query = { state: 'pending', instance_id: instanceId } as const
    const read = async () => (await this.#call('listApprovals', { query })).approvals
    return vi.waitFor(
      async () => {
        const [approval] = await read()
        if (!approval) throw new Error('no call waits')
        return approval
      },
      { timeout: 20_000, interval: 5 },
    )
  }

  decide(id: string, decision: 'approve' | 'deny', more: { reason?: string; for_minutes?: number } = {}) {
    return this.#call('decideApproval', { params: { id }, body: { decision, ...more } })
  }

  approvals() {
    return this.#call('listApprovals', { query: {} })
  }

  /** The keys that sign what agents get. */
  async publicKeys(): Promise<string> {
    const answer = await fetch(`${this.#server!.url}/.well-known/wardline-keys.json`)
    const { keys } = (await answer.json()) as { keys: { x: string }[] }
    return keys.map(({ x }) => x).join(',')
  }

  /** Creates a monitor connected through the wire, and records its events. */
  monitor(options: Partial<MonitorOptions> = {}, pace: Partial<Pace> = {}): { monitor: Monitor; heard: Received } {
    // Longer than the default of a second, because most tests must not depend on a busy machine.
    const given = { url: this.wire.url, key: this.agentKey, instanceId: agentId, checkTimeoutMs: 10_000, ...options }
    const monitor = createMonitorWith(given, { ...fastPace, ...pace })
    this.#monitors.push(monitor)
    const heard: Received = { suspend: [], resume: [], error: [] }
    monitor.on('suspend', (change) => heard.suspend.push(change))
    monitor.on('resume', (change) => heard.resume.push(change))
    monitor.on('error', (error) => heard.error.push(error))
    return { monitor, heard }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#monitors.map((monitor) => monitor.stop()))
    await this.wire.close()
    await this.#server?.close()
    rmSync(this.folder, { recursive: true, force: true })
  }
}

/** Resolves when the control stream is open, so kills are pushed. */
export const streamOpen = (monitor: Monitor) => eventually(() => expect(monitor.health.stream).toBe('open'))
