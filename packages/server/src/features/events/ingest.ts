import { severities } from '@wardline/contract'
import type { Row, RowsOf, Statement, Trx } from '../../db/database.ts'
import { GroupCommit } from '../../db/group-commit.ts'
import type { Deps } from '../../deps.ts'
import { DatabaseError } from '../../errors.ts'
import { eventBytes, isUrgent } from './event-cost.ts'
import { eventRowJson } from './event-row.ts'
import { compileInserts, type EventToStore, eventInserts, type Once } from './insert-queries.ts'
import { type OwnEvent, ownEventToStore } from './new-event.ts'
import { findIdempotent } from './queries.ts'

export type { EventToStore, Once } from './insert-queries.ts'

/** Builds the statements that alert on events. */
interface EventAlerts {
  /**
   * Returns statements to append to the transaction that stores the events; none for most. `touchedBy`: keys that touched
   * decoys, by event id.
   */
  statements(
    events: readonly EventToStore[],
    createdAt: number,
    touchedBy?: ReadonlyMap<string, string>,
  ): readonly Statement[]
  /** Called after the commit of statements. */
  notify(): void
}

/** Events that are stored atomically, with further statements of the same transaction. */
interface Group {
  events: EventToStore[]
  bytes: number
  /** The reporting key; the service's own events have a separate entry. */
  keyId: string
  isDecoyHit: boolean
  isUrgent: boolean
  also: readonly Statement[]
  once: Once | undefined
}

/** Ids of an earlier request with the same Idempotency-Key; undefined if this request was stored. */
export type Earlier = readonly string[] | undefined

interface StoreOptions {
  /** Whether the key touched a decoy; a limited number of these is alerted on by name. */
  isDecoyHit?: boolean
  /** Written in the same transaction. */
  also?: readonly Statement[]
  /** Key whose share of the queue is used; default: that of the service. */
  keyId?: string | undefined
  once?: Once | undefined
}

/** Events prepared for a batch of the caller. */
export interface PreparedEvents {
  statements: Statement[]
  /** Call after the commit. */
  stored(rowsOf: RowsOf): void
}

export interface Ingest {
  /** Stores the events in one transaction; resolves once it is on disk. */
  store(events: EventToStore[], options?: StoreOptions): Promise<Earlier>
  /**
   * Prepares events for a batch of the caller, who adds other alerts and the audit log after them. `touchedBy`: keys that
   * touched decoys, by event id.
   */
  prepare(events: EventToStore[], touchedBy?: ReadonlyMap<string, string>): PreparedEvents
  /** Stores events within a transaction of the caller. Resolves with a function to call after the commit. */
  storeWithin(trx: Trx, events: EventToStore[]): Promise<() => void>
  /** Builds an event reported by the service itself. */
  own(event: OwnEvent): EventToStore
  /** Throws AppError `overloaded` if the queue has no room for this many ordinary events of the key. */
  assertRoom(keyId: string, events: number, bytes: number): void
  /** Whether events wait for their commit. */
  isBusy(): boolean
  whenIdle(): Promise<void>
}

const nothing: readonly Statement[] = []
/** Owner of the service's own events in the queue; no key has this id. */
const service = 'the service'

export function createIngest(
  { database, bus, clock, metrics }: Pick<Deps, 'database' | 'bus' | 'clock' | 'metrics'>,
  alerts: EventAlerts,
  countStored: (events: readonly EventToStore[], createdAt: number) => void = () => {},
): Ingest {
  const inserts = compileInserts(database)
  const severityCounters = severities.map((severity) => [severity, metrics.events.labels(severity)] as const)

  async function commit(groups: Group[]): Promise<undefined[]> {
    // One time for the whole batch, so that within a process times are in the order of seq.
    const createdAt = clock.now()
    const events: EventToStore[] = []
    const keys: Once[] = []
    const others: Statement[] = []
    const touchedBy = new Map<string, string>()
    for (const group of groups) {
      for (const event of group.events) {
        events.push(event)
        if (group.isDecoyHit) touchedBy.set(event.id, group.keyId)
      }
      if (group.once) keys.push(group.once)
      others.push(...group.also)
    }
    const statements = eventInserts(inserts, events, keys, createdAt)
    const alertsOfThem = alerts.statements(events, createdAt, touchedBy)
    const results = await database.batch([...statements, ...alertsOfThem, ...others])
    publish(events, results[0]![0]!.value as number, createdAt)
    if (alertsOfThem.length > 0) alerts.notify()
    return groups.map(() => undefined)
  }

  function publish(events: EventToStore[], lastSeq: number, createdAt: number): void {
    let seq = lastSeq - events.length
    const counts = { info: 0, warning: 0, critical: 0, breach: 0 }
    for (const event of events) {
      counts[event.severity] += 1
      // Changes the object itself: a copy would stay in memory as long as the stream keeps the event.
      event.seq = ++seq
      event.created_at = createdAt
    }
    // Once per batch, because incrementing a counter takes longer than everything else here.
    for (const [severity, counter] of severityCounters) if (counts[severity] > 0) counter.inc(counts[severity])
    countStored(events, createdAt)
    bus.publishEvents(events, eventRowJson)
  }

  function prepare(events: EventToStore[], touchedBy?: ReadonlyMap<string, string>): PreparedEvents {
    const createdAt = clock.now()
    const alertsOfThem = alerts.statements(events, createdAt, touchedBy)
    const inserting = eventInserts(inserts, events, [], createdAt)
    return {
      statements: [...inserting, ...alertsOfThem],
      stored(rowsOf) {
        publish(events, rowsOf(inserting[0]!)[0]!.value as number, createdAt)
        if (alertsOfThem.length > 0) alerts.notify()
      },
    }
  }

  const queue = new GroupCommit<Group, undefined>({
    queue: 'events',
    collect: () => database.collect(),
    clock,
    metrics,
    commit,
    weigh: ({ events, bytes, keyId, isUrgent }) => ({ rows: events.length, bytes, owner: keyId, isUrgent }),
  })

  function add(
    events: EventToStore[],
    { also = nothing, keyId = service, once, isDecoyHit = false }: StoreOptions,
  ): Promise<undefined> {
    let bytes = 0
    let urgent = false
    for (const event of events) {
      bytes += eventBytes(event)
      urgent ||= isUrgent(event)
    }
    return queue.add({ events, also, once, bytes, keyId, isDecoyHit, isUrgent: urgent })
  }

  /** Pending requests by caller, kind and key: duplicates in one commit would make it fail for all others. */
  const underWay = new Map<string, { ids: readonly string[]; result: Promise<Earlier> }>()

  function storeOnce(events: EventToStore[], options: StoreOptions, once: Once): Promise<Earlier> {
    const name = JSON.stringify([once.caller, once.kind, once.key])
    const twin = underWay.get(name)
    if (twin) return twin.result.then((earlier) => earlier ?? twin.ids)
    const result = storeUnlessKnown(events, options, once).finally(() => underWay.delete(name))
    underWay.set(name, { ids: once.ids, result })
    return result
  }

  async function storeUnlessKnown(events: EventToStore[], options: StoreOptions, once: Once): Promise<Earlier> {
    const earlier = await findIdempotent(database.db, once)
    if (earlier) return earlier
    try {
      return await add(events, options)
    } catch (fault) {
      // A duplicate of this request was stored first.
      const twin = fault instanceof DatabaseError && fault.constraint
      const known = twin ? await findIdempotent(database.db, once) : undefined
      if (!known) throw fault
      return known
    }
  }

  return {
    store(events, options = {}) {
      return options.once ? storeOnce(events, options, options.once) : add(events, options)
    },

    prepare,

    async storeWithin(trx, events) {
      const { statements, stored } = prepare(events)
      const [takeSeqs, ...others] = statements
      const { rows } = await trx.executeQuery<Row>(takeSeqs!)
      for (const statement of others) await trx.executeQuery(statement)
      return () => stored(() => rows)
    },

    own: (event) => ownEventToStore(event, clock.now()),

    assertRoom: (keyId, events, bytes) => queue.assertRoom(keyId, events, bytes),
    isBusy: () => queue.isWaiting,
    whenIdle: () => queue.whenIdle(),
  }
}
