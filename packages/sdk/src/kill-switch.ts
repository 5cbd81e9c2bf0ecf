import { type Denial, denialOf, suspendedReason, WardlineDenied } from './denied.ts'
import type { MonitorError } from './faults.ts'
import type { Listeners } from './listeners.ts'
import type { Settings } from './options.ts'
import { unrefTimeout } from './repeat.ts'
import { appendSuspendLog, readStateFile, type SuspendLogLine, writeStateFile } from './state-file.ts'
import { type ControlState, contradicts } from './wire.ts'

type KillSwitchSettings = Pick<Settings, 'instanceId' | 'failMode' | 'staleAfterMs' | 'stateFile' | 'suspendLog'>

/**
 * Kill switch of one agent. Applies only states with a higher version, so a late answer undoes nothing and a suspension
 * lasts until it is lifted. With `failMode: 'closed'`, lost contact suspends the agent as well, until contact is
 * restored.
 */
export class KillSwitch {
  readonly #settings: KillSwitchSettings
  readonly #listeners: Listeners
  #controlState: ControlState | undefined
  #isFromService = false
  #contactAt: number | undefined
  #lastContact: Date | undefined
  #isCutOff = false
  #abort = new AbortController()
  /** The last announced suspension; undefined while active. */
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
    // Wait until the caller can add listeners, which it cannot before the constructor returns.
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

  /** Whether the service itself sent this state, and not only the file, which other programs may have written. */
  get isFromService(): boolean {
    return this.#isFromService
  }

  get lastContact(): Date | undefined {
    return this.#lastContact
  }

  /** Whether contact was lost for so long that a kill may have been missed. */
  get isStale(): boolean {
    return this.#contactAt === undefined || performance.now() - this.#contactAt > this.#settings.staleAfterMs
  }

  get reason(): string | undefined {
    if (this.#controlState?.suspended) return this.#controlState.reason ?? 'no reason was given'
    return this.#isCutOff ? 'no contact with the monitoring service' : undefined
  }

  /** Denial for every call while suspended. */
  get denial(): Denial | undefined {
    this.lookAtClock()
    return this.suspended ? this.#denial : undefined
  }

  /** Applies a state from the service if it is newer than the known one; false if it is older. */
  take(received: ControlState): boolean {
    const { version = -1 } = this
    const isSame = received.version === version && received.suspended === this.#controlState?.suspended
    if (isSame && !this.#isFromService) this.#controlState = received
    this.#isFromService ||= isSame || received.version > version
    if (received.version > version) {
      this.#controlState = received
      // Write the file before listeners run: one may end the process, which must not restart unsuspended.
      this.#keep(received)
    }
    this.noteContact()
    return received.version >= version
  }

  /**
   * Applies a suspension of an equal or lower version. Must not be used for a resume: only a higher version lifts a
   * suspension.
   */
  takeInstead(received: ControlState): void {
    this.#controlState = received
    this.#isFromService = true
    this.#keep(received, true)
    this.noteContact()
  }

  /** Whether the service sent a suspension at a version that this agent knows as active, or at a lower one. */
  contradicts(received: ControlState): boolean {
    return contradicts(received, this.#controlState)
  }

  /** Notes contact with the service. */
  noteContact(): void {
    this.#contactAt = performance.now()
    this.#lastContact = new Date()
    this.#isCutOff = false
    if (this.#settings.failMode === 'closed') {
      this.#cancelTimer()
      this.#cancelTimer = unrefTimeout(this.#settings.staleAfterMs + 1, () => this.lookAtClock())
    }
    this.#announce()
  }

  /** With `failMode: 'closed'`, suspends the agent if contact was lost for too long or never made. */
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
