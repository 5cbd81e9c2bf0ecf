import type { NewEvent } from '@wardline/contract'
import type { Statement, Trx } from '../../db/database.ts'
import { GroupCommit } from '../../db/group-commit.ts'
import type { StoredEvent } from '../../db/schema.ts'
import type { Deps } from '../../deps.ts'
import { DatabaseError } from '../../errors.ts'
import type { Outbox } from '../alerts/outbox.ts'
import { compileInserts, type EventToStore, type IdempotencyRow, insertStatements } from './insert-queries.ts'
import { eventToStore } from './new-event.ts'
import { findIdempotent } from './queries.ts'

export type { EventToStore } from './insert-queries.ts'

/** Events that are stored together or not at all, with what else must be written in the same transaction. */
interface Group {
  events: EventToStore[]
  bytes: number
  also: Statement[]
  idempotency: IdempotencyRow | undefined
}

/** The caller's Idempotency-Key: when it came before, nothing is written and the answer of that time holds. */
export interface Once {
  caller: string
  key: string
  answer: string
}

export interface StoreOptions {
  /** Written in the same transaction. */
  also?: Statement[]
  once?: Once | undefined
}

export interface Ingest {
  /** Stores the events in one transaction. After it is on disk resolves with the answer that holds, or the first id. */
  store(events: EventToStore[], options?: StoreOptions): Promise<string>
  /** Stores events within a transaction of the caller, who calls the result after the commit. */
  storeWithin(trx: Trx, events: EventToStore[]): Promise<() => void>
  /** An event that the service itself reports. */
  own(event: Omit<NewEvent, 'source'>): EventToStore
  /** Whether events wait for their commit. */
  isBusy(): boolean
  whenIdle(): Promise<void>
}

/** Source of the events that the service reports itself. */
const ownSource = 'wardline'

// Fixed columns and JSON punctuation weigh about this much beside the texts.
const rowOverheadBytes = 200
const weightOf = ({ description, metadata }: EventToStore) =>
  rowOverheadBytes + description.length + (metadata?.length ?? 0)

export function createIngest(
  { database, bus, clock, metrics }: Pick<Deps, 'database' | 'bus' | 'clock' | 'metrics'>,
  outbox: Pick<Outbox, 'statements' | 'notify'>,
): Ingest {
  const inserts = compileInserts(database)
  const severityCounters = Object.fromEntries(
    ['info', 'warning', 'critical', 'breach'].map((severity) => [severity, metrics.events.labels(severity)]),
  )

  /** Resolves with the id of the first event of each group. */
  async function commit(groups: Group[]): Promise<string[]> {
    // One time for the whole batch: within a process, times never run against the sequence.
    const createdAt = clock.now()
    const events = groups.flatMap((group) => group.events)
    const keys = groups.flatMap((group) => group.idempotency ?? [])
    const statements = insertStatements(inserts, events, keys, createdAt)
    const alerts = outbox.statements(events, createdAt)
    const results = await database.batch([...statements, ...alerts, ...groups.flatMap((group) => group.also)])
    publish(events, Number(results[0]![0]!.value), createdAt)
    if (alerts.length > 0) outbox.notify()
    return groups.map((group) => group.events[0]!.id)
  }

  function publish(events: EventToStore[], lastSeq: number, createdAt: number): void {
    const firstSeq = lastSeq - events.length + 1
    const rows: StoredEvent[] = []
    for (const [index, event] of events.entries()) {
      severityCounters[event.severity]!.inc()
      rows.push({ ...event, seq: firstSeq + index, created_at: createdAt })
    }
    bus.publishEvents(rows)
  }

  const queue = new GroupCommit<Group, string>({
    queue: 'events',
    clock,
    metrics,
    commit,
    weigh: ({ events, bytes }) => ({ rows: events.length, bytes }),
  })

  function add(events: EventToStore[], also: Statement[], idempotency?: IdempotencyRow): Promise<string> {
    const bytes = events.reduce((sum, event) => sum + weightOf(event), 0)
    return queue.add({ events, also, idempotency, bytes })
  }

  /** Requests under way by caller and key: twins in one batch would make it fail for all others in it. */
  const underWay = new Map<string, Promise<string>>()

  function storeOnce(events: EventToStore[], also: Statement[], once: Once): Promise<string> {
    const name = `${once.caller} ${once.key}`
    const twin = underWay.get(name)
    if (twin) return twin
    const result = storeUnlessKnown(events, also, once).finally(() => underWay.delete(name))
    underWay.set(name, result)
    return result
  }

  async function storeUnlessKnown(events: EventToStore[], also: Statement[], once: Once): Promise<string> {
    const { caller, key, answer } = once
    const earlier = await findIdempotent(database.db, caller, key)
    if (earlier !== undefined) return earlier
    try {
      await add(events, also, { caller, key, answer })
      return answer
    } catch (fault) {
      // A twin of this request was faster.
      const twin = fault instanceof DatabaseError && fault.constraint
      const known = twin ? await findIdempotent(database.db, caller, key) : undefined
      if (known === undefined) throw fault
      return known
    }
  }

  return {
    store(events, { also = [], once } = {}) {
      return once ? storeOnce(events, also, once) : add(events, also)
    },

    async storeWithin(trx, events) {
      const createdAt = clock.now()
      const [takeSeqs, ...others] = insertStatements(inserts, events, [], createdAt)
      const alerts = outbox.statements(events, createdAt)
      const { rows } = await trx.executeQuery<{ value: number }>(takeSeqs!)
      for (const statement of [...others, ...alerts]) await trx.executeQuery(statement)
      return () => {
        publish(events, Number(rows[0]!.value), createdAt)
        if (alerts.length > 0) outbox.notify()
      }
    },

    own: (event) => ({ ...eventToStore({ ...event, source: ownSource }, null, clock.now()), by_service: true }),

    isBusy: () => queue.isWaiting,
    whenIdle: () => queue.whenIdle(),
  }
}
