import { closeSync, lutimesSync, mkdirSync, renameSync, rmSync, statSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { openRegular, tailOf, withFile } from '../regular-file.ts'
import { appendSuspendLog } from '../state-file.ts'
import type { ControlState } from '../wire.ts'
import { shortHash } from './short-hash.ts'

const beatEveryMs = 60_000
/** Reading the configuration takes some ten milliseconds. */
export const configurationEveryMs = 30_000
/** Kills are rare: this holds hundreds of them. */
const maxLogBytes = 64 * 1024
/** Some hundred decisions that were made without the service. */
const maxEventBytes = 128 * 1024

/** By source, what the service last acknowledged of the coding agent's configuration, and when. */
export type ReportedConfigurations = Readonly<Record<string, { digest: string; at: number }>>

/**
 * State shared by calls of the hook. Calls run concurrently, so nothing is read, changed and written back: the control
 * state is the highest version in the append-only suspend log, and times are modification times of files. Each service
 * has separate state, because its control versions mean nothing to another.
 */
export class AgentMemory {
  readonly #folder: string
  readonly #base: string
  readonly #instanceId: string

  constructor(folder: string, url: string, instanceId: string) {
    this.#folder = folder
    this.#base = join(folder, `${instanceId}-${shortHash(url.replace(/\/+$/, ''))}`)
    this.#instanceId = instanceId
  }

  get suspendLog(): string {
    return `${this.#base}.log`
  }

  /** For a long-running process that keeps its state in memory. */
  get stateFile(): string {
    return `${this.#base}.state`
  }

  /** The policies that were received last. */
  get policyFile(): string {
    return `${this.#base}.policy`
  }

  /** What was reported of the coding agent's configuration. */
  get configurationFile(): string {
    return `${this.#base}.configuration`
  }

  /** The folder of what sessions have met. */
  get sessionsFolder(): string {
    return `${this.#base}.sessions`
  }

  /** Decisions that were made without the service. */
  get eventsFile(): string {
    return `${this.#base}.events`
  }

  /** Creates the folder; call before any write. Throws if it cannot be created. */
  makeFolder(): void {
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
  }

  /** Returns the last applied kill or resume; undefined if there was none. Throws if the log cannot be read. */
  latest(): ControlState | undefined {
    let newest: ControlState | undefined
    for (const line of [this.suspendLog, `${this.suspendLog}.1`].flatMap(linesOf)) {
      const received = stateFromLine(line, this.#instanceId)
      if (received && received.version > (newest?.version ?? 0)) newest = received
    }
    return newest
  }

  /**
   * Stores a state; returns a fault or undefined. `isInstead` first moves away the stored state, which the service
   * contradicts.
   */
  keep({ suspended, version, reason }: ControlState, isInstead = false): string | undefined {
    if (isInstead) this.#putAside()
    const action = suspended ? 'suspend' : 'resume'
    const line = { instance: this.#instanceId, action, version, ...(reason === null ? {} : { reason }) } as const
    return appendSuspendLog(this.suspendLog, line)?.message
  }

  #putAside(): void {
    try {
      renameSync(this.suspendLog, `${this.suspendLog}.aside`)
      rmSync(`${this.suspendLog}.1`, { force: true })
    } catch {
      // A concurrent call has moved it.
    }
  }

  get isBeatDue(): boolean {
    return this.#isDue('beat', beatEveryMs)
  }

  /** Whether the configuration of the coding agent is to be read. Notes that this process reads it. */
  takeConfigurationTurn(): boolean {
    if (!this.#isDue('config', configurationEveryMs)) return false
    this.#touch('config')
    return true
  }

  /** Returns nothing if it is not known, so that the configuration is reported again. */
  configurations(): ReportedConfigurations {
    try {
      const text = withFile(openRegular(this.configurationFile, 'read'), (file) => tailOf(file, maxLogBytes))
      return Object(JSON.parse(text))
    } catch {
      return {}
    }
  }

  /** Replaces what is stored as a whole, because hooks read it at the same time. */
  keepConfigurations(reported: ReportedConfigurations): void {
    const next = `${this.configurationFile}-${process.pid}`
    rmSync(next, { force: true })
    writeFileSync(next, JSON.stringify(reported), { mode: 0o600, flag: 'wx' })
    renameSync(next, this.configurationFile)
  }

  get lastContact(): Date | undefined {
    return this.#time('contact')
  }

  noteBeat(): void {
    this.#touch('beat')
  }

  noteContact(): void {
    this.#touch('contact')
  }

  /** Counts unreported calls, one byte each. */
  addLost(count: number): void {
    if (count > 0) withFile(openRegular(this.#file('lost'), 'append'), (file) => writeSync(file, '.'.repeat(count)))
  }

  get lost(): number {
    return statSync(this.#file('lost'), { throwIfNoEntry: false })?.size ?? 0
  }

  /** Returns and resets the count, for exactly one of concurrent callers. */
  takeLost(): number {
    if (this.lost === 0) return 0
    const taken = `${this.#base}.lost-${process.pid}`
    try {
      renameSync(this.#file('lost'), taken)
      return statSync(taken).size
    } catch {
      return 0
    } finally {
      rmSync(taken, { force: true })
    }
  }

  /** Keeps events, one a line, until the service answers. Beyond the limit they are lost. */
  addEvents(lines: readonly string[]): void {
    if (lines.length === 0 || (statSync(this.eventsFile, { throwIfNoEntry: false })?.size ?? 0) > maxEventBytes) return
    withFile(openRegular(this.eventsFile, 'append'), (file) => writeSync(file, `${lines.join('\n')}\n`))
  }

  /** Returns and removes the kept events, for exactly one of concurrent callers. */
  takeEvents(): string[] {
    const taken = `${this.#base}.events-${process.pid}`
    try {
      renameSync(this.eventsFile, taken)
      const text = withFile(openRegular(taken, 'read'), (file) => tailOf(file, 2 * maxEventBytes))
      return text.split('\n').filter((line) => line !== '')
    } catch {
      return []
    } finally {
      rmSync(taken, { force: true })
    }
  }

  #isDue(what: 'beat' | 'config', everyMs: number): boolean {
    const last = this.#time(what)
    // A clock that was set back must not stop heartbeats.
    return last === undefined || Math.abs(Date.now() - last.getTime()) >= everyMs
  }

  #file(what: 'beat' | 'contact' | 'config' | 'lost'): string {
    return `${this.#base}.${what}`
  }

  #time(what: 'beat' | 'contact' | 'config'): Date | undefined {
    return statSync(this.#file(what), { throwIfNoEntry: false })?.mtime
  }

  #touch(what: 'beat' | 'contact' | 'config'): void {
    const now = new Date()
    try {
      lutimesSync(this.#file(what), now, now)
    } catch {
      closeSync(openRegular(this.#file(what), 'append'))
    }
  }
}

function linesOf(file: string): string[] {
  try {
    return withFile(openRegular(file, 'read'), (descriptor) => tailOf(descriptor, maxLogBytes)).split('\n')
  } catch (fault) {
    if ((fault as { code?: string }).code === 'ENOENT') return []
    throw fault
  }
}

/** Parses a line. Incomplete lines, from a full disk or the start of the tail, are ignored. */
function stateFromLine(line: string, instanceId: string): ControlState | undefined {
  try {
    const { instance, action, version, reason } = JSON.parse(line)
    if (instance !== instanceId || !Number.isSafeInteger(version)) return undefined
    if (action !== 'suspend' && action !== 'resume') return undefined
    return { version, suspended: action === 'suspend', reason: typeof reason === 'string' ? reason : null }
  } catch {
    return undefined
  }
}
