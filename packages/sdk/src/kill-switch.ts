import { type Denial, denialOf, suspendedReason, WardlineDenied } from './denied.ts'
import type { MonitorError } from './faults.ts'
import type { Listeners } from './listeners.ts'
import type { Settings } from './options.ts'
import { laterUnheld } from './repeat.ts'
import { appendSuspendLog, readStateFile, type SuspendLogLine, writeStateFile } from './state-file.ts'
import { contradicts, type Told } from './wire.ts'

type KillSwitchSettings = Pick<Settings, 'instanceId' | 'failMode' | 'staleAfterMs' | 'stateFile' | 'suspendLog'>

/**
 * The state of one agent's kill switch. Of what the service tells only a higher version counts, so that a late answer
 * undoes nothing and a suspension lasts until it is lifted. With `failMode: 'closed'` a lack of contact suspends as well,
 * until there is contact again.
 */
export class KillSwitch {
  readonly #settings: KillSwitchSettings
  readonly #listeners: Listeners
  #told: Told | undefined
  #isHeard = false
  #heardAt: number | undefined
  #lastContact: Date | undefined
  #isCutOff = false
  #abort = new AbortController()
  /** What was announced last: nothing while active. */
  #announced: string | undefined
  #cancelTimer = () => {}

  constructor(settings: KillSwitchSettings, listeners: Listeners) {
    this.#settings = settings
    this.#listeners = listeners
    const { stateFile, instanceId } = settings
    if (stateFile === undefined) return
    const { value, fault } = readStateFile(stateFile, instanceId)
    this.#told = value
    if (value?.suspended) {
      this.#announced = this.#situation
      this.#abort.abort(new WardlineDenied(this.#denial))
    }
    // Nobody can listen before the constructor has ended.
    queueMicrotask(() => {
      if (fault) listeners.emit('error', fault)
      if (value?.suspended && this.#told === value) listeners.emit('suspend', this.#change)
    })
  }

  get signal(): AbortSignal {
    return this.#abort.signal
  }

  get suspended(): boolean {
    return this.#told?.suspended === true || this.#isCutOff
  }

  get told(): Told | undefined {
    return this.#told
  }

  get version(): number | undefined {
    return this.#told?.version
  }

  /** The service itself has told this state; before that it may come from a file that anything may have written. */
  get isHeard(): boolean {
    return this.#isHeard
  }

  get lastContact(): Date | undefined {
    return this.#lastContact
  }

  /** No contact for so long that a kill may have gone unheard. */
  get isStale(): boolean {
    return this.#heardAt === undefined || performance.now() - this.#heardAt > this.#settings.staleAfterMs
  }

  get reason(): string | undefined {
    if (this.#told?.suspended) return this.#told.reason ?? 'no reason was given'
    return this.#isCutOff ? 'no contact with the monitoring service' : undefined
  }

  /** The denial of every call, while suspended. */
  get denial(): Denial | undefined {
    this.lookAtClock()
    return this.suspended ? this.#denial : undefined
  }

  /** Takes what the service tells, if that is newer than what is known. */
  take(told: Told): 'newer' | 'known' | 'older' {
    const { version = -1 } = this
    const isSame = told.version === version && told.suspended === this.#told?.suspended
    if (isSame && !this.#isHeard) this.#told = told
    this.#isHeard ||= isSame || told.version > version
    if (told.version > version) {
      this.#told = told
      // Before it is announced: a listener may end the process, which must not come back as if nothing had been.
      this.#keep(told)
    }
    this.confirm()
    return told.version > version ? 'newer' : told.version === version ? 'known' : 'older'
  }

  /** Takes a suspension of an equal or lower version. Never one that lifts a suspension: a version tells old from new. */
  takeInstead(told: Told): void {
    this.#told = told
    this.#isHeard = true
    this.#keep(told, true)
    this.confirm()
  }

  /** Whether what the service tells is a suspension that this state denies. */
  contradicts(told: Told): boolean {
    return contradicts(told, this.#told)
  }

  /** The service says that nothing has changed. */
  confirm(): void {
    this.#heardAt = performance.now()
    this.#lastContact = new Date()
    this.#isCutOff = false
    if (this.#settings.failMode === 'closed') {
      this.#cancelTimer()
      this.#cancelTimer = laterUnheld(this.#settings.staleAfterMs + 1, () => this.lookAtClock())
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
    const isTold = this.#told?.suspended === true || !this.suspended
    return { version: isTold ? this.version : undefined, reason: this.reason }
  }

  get #situation(): string | undefined {
    if (!this.suspended) return undefined
    return this.#told?.suspended ? `version ${this.#told.version}` : 'cut off'
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

  #keep(told: Told, isInstead = false): void {
    const { stateFile, instanceId } = this.#settings
    if (stateFile !== undefined) this.#tell(writeStateFile(stateFile, instanceId, told, isInstead))
  }

  #log(line: Omit<SuspendLogLine, 'instance'>): void {
    const { suspendLog, instanceId } = this.#settings
    if (suspendLog !== undefined) this.#tell(appendSuspendLog(suspendLog, { instance: instanceId, ...line }))
  }

  #tell(fault: MonitorError | undefined): void {
    if (fault) this.#listeners.emit('error', fault)
  }
}
