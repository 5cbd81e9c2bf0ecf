import { type Denial, denialOf, suspendedReason, WardlineDenied } from './denied.ts'
import type { MonitorError } from './faults.ts'
import type { Listeners } from './listeners.ts'
import type { Settings } from './options.ts'
import { unrefTimeout } from './repeat.ts'
import { appendSuspendLog, readStateFile, type SuspendLogLine, writeStateFile } from './state-file.ts'
import { type ControlState, contradicts } from './wire.ts'

type KillSwitchSettings = Pick<Settings, 'instanceId' | 'failMode' | 'staleAfterMs' | 'stateFile' | 'suspendLog'>

/**
 * The state of one agent's kill switch. Of what the service sends only a higher version counts, so that a late answer
 * undoes nothing and a suspension lasts until it is lifted. With `failMode: 'closed'` a lack of contact suspends as
 * well, until there is contact again.
 */
export class KillSwitch {
  readonly #settings: KillSwitchSettings
  readonly #listeners: Listeners
  #controlState: ControlState | undefined
  #isConfirmed = false
  #contactAt: number | undefined
  #lastContact: Date | undefined
  #isCutOff = false
  #abort = new AbortController()
  /** The suspension announced last; undefined while active. */
  #announced: string | undefined
  #cancelTimer = () => {}

  constructor(settings: KillSwitchSettings, listeners: Listeners) {
    this.#settings = settings
    this.#listeners = listeners
    const { stateFile, instanceId } = settings
    if (stateFile === undefined) return
    const { value, fault } = readStateFile(stateFile, instanceId)
    this.#controlState = value
    if (value?.suspended) {
      this.#announced = this.#situation
      this.#abort.abort(new WardlineDenied(this.#denial))
    }
    // No listener can be added before the constructor has ended.
    queueMicrotask(() => {
      if (fault) listeners.emit('error', fault)
      if (value?.suspended && this.#controlState === value) listeners.emit('suspend', this.#change)
    })
  }

  get signal(): AbortSignal {
    return this.#abort.signal
  }

  get suspended(): boolean {
    return this.#controlState?.suspended === true || this.#isCutOff
  }

  get controlState(): ControlState | undefined {
    return this.#controlState
  }

  get version(): number | undefined {
    return this.#controlState?.version
  }

  /**
   * The service itself has sent this state; before that it may come from a file that other programs may have written.
   */
  get isConfirmed(): boolean {
    return this.#isConfirmed
  }

  get lastContact(): Date | undefined {
    return this.#lastContact
  }

  /** No contact for so long that a kill may have gone unheard. */
  get isStale(): boolean {
    return this.#contactAt === undefined || performance.now() - this.#contactAt > this.#settings.staleAfterMs
  }

  get reason(): string | undefined {
    if (this.#controlState?.suspended) return this.#controlState.reason ?? 'no reason was given'
    return this.#isCutOff ? 'no contact with the monitoring service' : undefined
  }

  /** The denial of every call, while suspended. */
  get denial(): Denial | undefined {
    this.lookAtClock()
    return this.suspended ? this.#denial : undefined
  }

  /** Applies a state from the service, if it is newer than the known one. */
  take(received: ControlState): 'newer' | 'known' | 'older' {
    const { version = -1 } = this
    const isSame = received.version === version && received.suspended === this.#controlState?.suspended
    if (isSame && !this.#isConfirmed) this.#controlState = received
    this.#isConfirmed ||= isSame || received.version > version
    if (received.version > version) {
      this.#controlState = received
      // Before listeners run: one may end the process, which must not come back unsuspended.
      this.#keep(received)
    }
    this.confirm()
    return received.version > version ? 'newer' : received.version === version ? 'known' : 'older'
  }

  /** Applies a suspension of an equal or lower version. Never a resume: only a higher version lifts a suspension. */
  takeInstead(received: ControlState): void {
    this.#controlState = received
    this.#isConfirmed = true
    this.#keep(received, true)
    this.confirm()
  }

  /** Whether the state from the service is a suspension that this state denies. */
  contradicts(received: ControlState): boolean {
    return contradicts(received, this.#controlState)
  }

  /** The service says that nothing has changed. */
  confirm(): void {
    this.#contactAt = performance.now()
    this.#lastContact = new Date()
    this.#isCutOff = false
    if (this.#settings.failMode === 'closed') {
      this.#cancelTimer()
      this.#cancelTimer = unrefTimeout(this.#settings.staleAfterMs + 1, () => this.lookAtClock())
    }
    this.#announce()
  }

  /** With `failMode: 'closed'`, suspends when there was no contact for too long, or never. */
  lookAtClock(): void {
    if (this.#settings.failMode === 'open' || this.#isCutOff || !this.isStale) return
    this.#isCutOff = true
    this.#announce()
  }

  close(): void {
    this.#cancelTimer()
  }

  get #denial(): Denial {
    return denialOf('suspended', suspendedReason(this.reason))
  }

  get #change() {
    const isReceived = this.#controlState?.suspended === true || !this.suspended
    return { version: isReceived ? this.version : undefined, reason: this.reason }
  }

  get #situation(): string | undefined {
    if (!this.suspended) return undefined
    return this.#controlState?.suspended ? `version ${this.#controlState.version}` : 'cut off'
  }

  #announce(): void {
    const situation = this.#situation
    if (situation === this.#announced) return
    const wasCutOff = this.#announced === 'cut off'
    this.#announced = situation
    const { version, reason } = this.#change
    if (situation === undefined) {
      this.#abort = new AbortController()
      this.#log({ action: 'resume', ...(wasCutOff || version === undefined ? {} : { version }) })
      this.#listeners.emit('resume', { version: wasCutOff ? undefined : version, reason: undefined })
      return
    }
    this.#abort.abort(new WardlineDenied(this.#denial))
    this.#log({ action: 'suspend', ...(version === undefined ? {} : { version }), ...(reason ? { reason } : {}) })
    this.#listeners.emit('suspend', { version, reason })
  }

  #keep(received: ControlState, isInstead = false): void {
    const { stateFile, instanceId } = this.#settings
    if (stateFile !== undefined) this.#notify(writeStateFile(stateFile, instanceId, received, isInstead))
  }

  #log(line: Omit<SuspendLogLine, 'instance'>): void {
    const { suspendLog, instanceId } = this.#settings
    if (suspendLog !== undefined) this.#notify(appendSuspendLog(suspendLog, { instance: instanceId, ...line }))
  }

  #notify(fault: MonitorError | undefined): void {
    if (fault) this.#listeners.emit('error', fault)
  }
}
