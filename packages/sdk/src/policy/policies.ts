import { type DeliveredSet, type ListedTool, PolicySet, PolicySetFault } from '@wardline/policy'
import type { ActiveFaults } from '../active-faults.ts'
import { MonitorError } from '../faults.ts'
import type { Settings } from '../options.ts'
import type { Pace } from '../pace.ts'
import { unrefTimeout } from '../repeat.ts'
import type { Answer, Service } from '../service.ts'
import { openTextVerifier, type VerifyText } from '../signed-control.ts'
import { announcedVersion } from './notices.ts'
import { type ReceivedSet, readSet, readStoredSet, storeSet } from './received-set.ts'

interface PoliciesOptions {
  service: Service
  faults: ActiveFaults
  settings: Pick<Settings, 'instanceId' | 'publicKey' | 'stateFile'>
  pace: Pace
}

/** Reads a set. Throws PolicySetFault, also for a body that is not JSON. */
export function openSet({ body, instance_id }: ReceivedSet, tools: readonly ListedTool[]): PolicySet {
  let delivered: DeliveredSet
  try {
    delivered = JSON.parse(body)
  } catch {
    throw new PolicySetFault('it is not JSON.')
  }
  if (delivered?.agent?.id !== instance_id) throw new PolicySetFault('it is for another agent.')
  return new PolicySet(delivered, tools)
}

/** A fault with a set, for people. `reason`: of the PolicySetFault. */
export const unreadableSet = (reason: string): string =>
  `The policies of this agent cannot be read: ${reason} The last ones that could be read hold; update the SDK if the service is newer.`

/**
 * The policies of this agent: those of the service, else those stored on disk. A set replaces only an older one. Nothing is
 * asked or stored while the service has no policies.
 */
export class Policies {
  readonly #options: PoliciesOptions
  readonly #verify: Promise<VerifyText | undefined>
  /** Resolves when the stored set has been read. */
  readonly #loaded: Promise<void>
  #held: { received: ReceivedSet; set: PolicySet } | undefined
  #announced = 0
  #tools: readonly ListedTool[] = []
  #fetching: Promise<void> | undefined
  /** A version that could not be used, and when it may be fetched again. */
  #unusable = { version: 0, until: 0 }
  #cancelRetry = () => {}

  constructor(options: PoliciesOptions) {
    this.#options = options
    this.#verify = openTextVerifier(options.settings.publicKey)
    this.#loaded = this.#file === undefined ? Promise.resolve() : this.#load(this.#file)
  }

  get #file(): string | undefined {
    const { stateFile } = this.#options.settings
    return stateFile && `${stateFile}.policy`
  }

  get version(): number | undefined {
    return this.#held?.received.version
  }

  /** Resolves with the policies that hold; undefined if there are none. */
  async current(): Promise<PolicySet | undefined> {
    await this.#loaded
    return this.#held?.set
  }

  /** The same without waiting for what is stored, which is read before the first call is decided. */
  get loaded(): PolicySet | undefined {
    return this.#held?.set
  }

  /** Whether the service has policies of which none could be read. */
  get areMissing(): boolean {
    return this.#announced > 0 && this.#held === undefined
  }

  /** Learns the version from an answer. Resolves when the policies are up to date, or could not be fetched. */
  async learn(answer: Answer): Promise<void> {
    await this.announce(announcedVersion(answer) ?? 0)
  }

  /** Fetches the policies if the announced version is newer. An announcement is not signed; what is fetched is. */
  async announce(version: number): Promise<void> {
    await this.#loaded
    this.#announced = Math.max(this.#announced, version)
    while (this.#fetching || this.#isDue) {
      this.#fetching ??= this.#fetch(this.#announced).finally(() => {
        this.#fetching = undefined
      })
      await this.#fetching
    }
  }

  /** What tool servers list: for guesses about tools that the policies do not name. */
  setTools(tools: readonly ListedTool[]): void {
    this.#tools = tools
    if (this.#held) this.#use(this.#held.received)
  }

  stop(): void {
    this.#cancelRetry()
  }

  get #isDue(): boolean {
    const { version, until } = this.#unusable
    const isNewer = this.#announced > (this.version ?? 0)
    return isNewer && (this.#announced > version || performance.now() >= until)
  }

  async #load(file: string): Promise<void> {
    const stored = readStoredSet(file, this.#options.settings.instanceId, await this.#verify)
    // Listeners can be added only after the constructor has returned.
    if (stored instanceof MonitorError) queueMicrotask(() => this.#options.faults.raise('policy', stored))
    else if (stored) this.#use(stored)
  }

  async #fetch(announced: number): Promise<void> {
    const { service, settings, pace, faults } = this.#options
    this.#unusable = { version: announced, until: performance.now() + pace.refused }
    const answer = await service.call(`instances/${settings.instanceId}/policy`, { timeoutMs: pace.request })
    if (answer.status !== 200) {
      faults.raise(
        'policy',
        new MonitorError('policy', `No policies were received. ${service.explain(answer).message}`),
      )
      this.#unusable.until = performance.now() + pace.pollWithoutStream
      // While the stream is open, the next poll is far away.
      this.#cancelRetry()
      this.#cancelRetry = unrefTimeout(pace.pollWithoutStream + 1, () => void this.announce(0))
      return
    }
    const received = readSet(answer.body, settings.instanceId, await this.#verify)
    if (typeof received === 'string')
      faults.raise('policy', new MonitorError('policy', `${received} They are ignored.`))
    else if (received.version > (this.version ?? 0) && this.#use(received)) this.#keep(received)
  }

  /** Whether the set could be read and holds now. */
  #use(received: ReceivedSet): boolean {
    const { faults } = this.#options
    try {
      this.#held = { received, set: openSet(received, this.#tools) }
      faults.clear('policy')
      return true
    } catch (fault) {
      faults.raise('policy', new MonitorError('policy', unreadableSet((fault as Error).message), fault))
      return false
    }
  }

  #keep(received: ReceivedSet): void {
    const file = this.#file
    void this.#verify.then((verify) => {
      const fault = file && storeSet(file, received, verify)
      if (fault) this.#options.faults.raise('policy file', fault)
    })
  }
}
