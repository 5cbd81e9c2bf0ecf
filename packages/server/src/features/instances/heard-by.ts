import { type Heartbeat, observedAgentType, type Witness } from '@wardline/contract'
import { dayMs, isoTime, minuteMs } from '../../clock.ts'
import type { Db } from '../../db/database.ts'
import { WriteBehind } from '../../db/write-behind.ts'
import type { Deps } from '../../deps.ts'
import {
  deleteWitnessesBefore,
  type HeardCells,
  heardStatement,
  readWitnesses,
  reportedStatement,
  type WitnessRow,
} from './heard-by-statements.ts'

/** Type of agents that registered by calling a model; one that sends heartbeats itself has another. */
export const callingAgentType = 'model-gateway'
/** What is known already is written so often: each row costs about as much as a heartbeat. */
const repeatMs = minuteMs
/** Names in memory for each instance that may be registered: most are heard by one or two, and report. */
const namesPerInstance = 3
/** A witness that was silent for longer is no longer shown, and is forgotten. */
const keptMs = 30 * dayMs

/**
 * Returns which client sent a heartbeat, also of earlier versions: only the hook leaves without `boot_id`, because it
 * starts for every call. Undefined for heartbeats that the service makes.
 */
export function senderOf({ agent_type: type, boot_id, leaving, supervisor }: Heartbeat): Witness | undefined {
  if (supervisor !== undefined) return 'supervisor'
  if (type === observedAgentType || type === callingAgentType) return undefined
  if (type === 'mcp-proxy') return 'mcp'
  return leaving === true && boot_id === undefined && type !== undefined ? 'hook' : 'sdk'
}

/** Notes by what each instance is heard, and writes it once it is new, later about once a minute. */
export class HeardBy {
  readonly #deps: Pick<Deps, 'database' | 'clock'>
  readonly #maxNames: number
  /** When each was noted last, in epoch milliseconds, by witness and instance. */
  readonly #noted = new Map<string, number>()
  readonly #unwritten: WriteBehind<number>

  constructor(deps: Pick<Deps, 'database' | 'clock' | 'config'>) {
    this.#deps = deps
    this.#maxNames = namesPerInstance * deps.config.maxInstances
    this.#unwritten = new WriteBehind({
      merge: (older, newer) => Math.max(older, newer),
      write: (values) => this.#store(values),
      max: this.#maxNames,
    })
  }

  note(instanceId: string, witness: Witness, at: number): void {
    this.#note(`${instanceId} ${witness}`, at)
  }

  /** Call with events that this process stored. */
  noteEvents(
    events: readonly { instance_id: string | null; event_type: string; source: string; by_service: 0 | 1 }[],
    at: number,
  ): void {
    for (const { instance_id, source, by_service } of events) {
      if (instance_id !== null && by_service === 0 && source !== observedAgentType) this.#note(instance_id, at)
    }
  }

  #note(name: string, at: number): void {
    const before = this.#noted.get(name)
    // A clock that was set back must not silence a witness.
    if (before !== undefined && Math.abs(at - before) < repeatMs) return
    if (before === undefined && this.#noted.size >= this.#maxNames) this.#noted.clear()
    this.#noted.set(name, at)
    this.#unwritten.note(name, at)
  }

  /** Periodic job, also run on shutdown. */
  write(): Promise<void> {
    return this.#unwritten.write()
  }

  async #store(values: readonly [name: string, at: number][]): Promise<void> {
    const { database } = this.#deps
    const heard: HeardCells[] = []
    const reported: [string, number][] = []
    for (const [name, at] of values) {
      const [id, witness] = name.split(' ') as [string, Witness?]
      if (witness === undefined) reported.push([id, at])
      else heard.push([id, witness, at])
    }
    // First the witnesses: a hook may be new.
    await database.batch([
      ...(heard.length > 0 ? [heardStatement(database, heard)] : []),
      ...(reported.length > 0 ? [reportedStatement(database, reported)] : []),
    ])
  }
}

/** Returns by what these instances are heard, by id. */
export async function readHeardBy(db: Db, ids: readonly string[], now: number): Promise<Map<string, WitnessRow[]>> {
  return Map.groupBy(await readWitnesses(db, ids, now - keptMs), ({ instance_id }) => instance_id)
}

export const heardSince = (now: number): number => now - keptMs

export const namesOf = (rows: readonly WitnessRow[] = []): Witness[] => rows.map(({ witness }) => witness)

export const viewWitnesses = (rows: readonly WitnessRow[] = []) =>
  rows.map(({ witness, since, last_at }) => ({ witness, since: isoTime(since), last_at: isoTime(last_at) }))

/** Periodic job: deletes witnesses that are no longer shown. */
export const forgetWitnesses = ({ database, clock }: Pick<Deps, 'database' | 'clock'>, stopping?: AbortSignal) =>
  deleteWitnessesBefore(database.db, clock.now() - keptMs, stopping)
