import { eventTypes } from '@wardline/contract'
import { hourMs, isoTime } from '../../clock.ts'
import type { Trx } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import type { Ingest } from '../events/ingest.ts'
import type { OwnEvent } from '../events/new-event.ts'
import type { Outage } from './collector.ts'
import type { Mismatch } from './mismatch.ts'
import { beginMismatch, endMismatch, type MismatchRow } from './queries.ts'

/** Between two events of an agent about the same witness: one that comes and goes must not flood. */
const quietMs = hourMs
/** In place of an agent, of what many lose together. */
export const allAgents = ''
/** Tools in an event. */
const shownTools = 10

export interface EpisodeParts {
  ingest: Pick<Ingest, 'own' | 'storeWithin'>
  policySets: { restricts(instanceId: string, tools: readonly string[]): Promise<boolean> }
}

type Missing = MismatchRow['missing']

const witnessTexts: Record<Missing, string> = {
  hook: 'hook',
  sdk: 'SDK',
  client: 'hook or SDK',
  otlp: 'telemetry',
}

const callsText = (calls: number) => (calls === 1 ? '1 call' : `${calls} calls`)

function describe({ missing, calls, tools }: MismatchRow): string {
  const names = Object.keys(JSON.parse(tools) as object).join(', ')
  const other = missing === 'otlp' ? 'its hook or SDK' : 'its telemetry'
  const but =
    missing === 'client'
      ? ', although policies apply to it: no hook or SDK of it is heard'
      : `, not its ${witnessTexts[missing]}`
  return `${callsText(calls)} that only ${other} reported${but}: ${names}`.slice(0, 900)
}

/** Begins and ends the episodes of agents. The row of an episode is stored with its event, so that there is one. */
export class Episodes {
  readonly #deps: Pick<Deps, 'database'>
  readonly #parts: EpisodeParts

  constructor(deps: Pick<Deps, 'database'>, parts: EpisodeParts) {
    this.#deps = deps
    this.#parts = parts
  }

  /** Stores a mismatch. Resolves with whether it was reported. */
  async begin(id: string, mismatch: Omit<Mismatch, 'missing'>, missing: Missing, now: number): Promise<boolean> {
    const names = [...mismatch.tools.keys()]
    const isRestricted = missing !== 'otlp' && (await this.#parts.policySets.restricts(id, names).catch(unlessDeleted))
    const shown = Object.fromEntries([...mismatch.tools].slice(0, shownTools))
    const row: MismatchRow = {
      instance_id: id,
      missing,
      severity: isRestricted ? 'critical' : 'warning',
      since: mismatch.since,
      calls: mismatch.calls,
      tools: JSON.stringify(shown),
      reported_at: now,
      ended_at: null,
    }
    const metadata = { missing, calls: row.calls, tools: shown, since: isoTime(row.since), restricted: isRestricted }
    const restriction = isRestricted ? '; a policy denies or asks about one of their tools' : ''
    return this.#store(
      {
        severity: row.severity,
        event_type: eventTypes.reportMismatch,
        description: `${describe(row)}${restriction}`,
        instance_id: id,
        metadata,
      },
      (trx) => beginMismatch(trx, row, now - quietMs),
    )
  }

  /** Stores that many agents lose telemetry together. */
  async beginOutage({ since, silent, heard }: Outage, now: number): Promise<void> {
    const row: MismatchRow = {
      ...{ instance_id: allAgents, missing: 'otlp', severity: 'warning', since, calls: 0, tools: '{}' },
      ...{ reported_at: now, ended_at: null },
    }
    await this.#store(
      {
        severity: 'warning',
        event_type: eventTypes.reportMismatch,
        description: `Telemetry of ${silent} of ${silent + heard} agents at work is missing: a collector that they share may have failed`,
        metadata: { missing: 'otlp', agents: silent, of: silent + heard, since: isoTime(since) },
      },
      (trx) => beginMismatch(trx, row, now - quietMs),
    )
  }

  /** Ends an episode, for a reason that people read. */
  async end(
    row: MismatchRow,
    now: number,
    why = `Its ${witnessTexts[row.missing]} reports calls again`,
  ): Promise<void> {
    const { instance_id, missing, calls, since } = row
    await this.#store(
      {
        severity: 'info',
        event_type: eventTypes.reportMismatchEnded,
        description: why,
        ...(instance_id === allAgents ? {} : { instance_id }),
        metadata: { missing, calls, since: isoTime(since) },
      },
      (trx) => endMismatch(trx, row, now),
    )
  }

  /** Stores an event if `change` resolves with true. */
  async #store(event: OwnEvent, change: (trx: Trx) => Promise<boolean>): Promise<boolean> {
    const { ingest } = this.#parts
    let publish = () => {}
    const isStored = await this.#deps.database.db.transaction().execute(async (trx) => {
      if (!(await change(trx))) return false
      publish = await ingest.storeWithin(trx, [ingest.own(event)])
      return true
    })
    publish()
    return isStored
  }
}

function unlessDeleted(fault: unknown): false {
  if (fault instanceof AppError && fault.code === 'not_found') return false
  throw fault
}
