import { onlyName } from '@wardline/text'
import { pagesOf } from '../../db/portions.ts'
import type { StoredEvent } from '../../db/schema/events.ts'
import { WriteBehind } from '../../db/write-behind.ts'
import type { Deps } from '../../deps.ts'
import { mayActFor, mayBeAgent, type Principal } from '../../http/auth.ts'
import { isActivity, readSources } from '../events/log-statements.ts'
import { readOwners } from '../instances/control-statements.ts'
import { readKnownIds } from '../instances/fleet-statements.ts'
import { deliveryMs, graceMs } from './states.ts'
import { activityStatement, alignmentStatements, readKeyHolders, readLastingAfter } from './watch-statements.ts'

const pageRows = 5_000
/** Interval of reading the log, which finds events stored by a process that crashed. */
const readAgainEveryMs = 60_000

/** Suspended instances whose key and sources are read per run, and events read for each. */
const learntInRun = 100
const sourceEvents = 50

/** Ids without a suspension under which held keys reported since the last run: more are not needed to report a key. */
const maxStrangers = 1_000

type Event = Pick<StoredEvent, 'instance_id' | 'by_service' | 'event_type' | 'source' | 'created_at' | 'metadata'>

/** The control version that suspended an instance, and the time of the kill in epoch milliseconds. */
interface Held {
  version: number
  requestedAt: number
}

/** Activity of a suspended instance that the event log does not show under its id. */
interface Unlogged {
  at: number
  count: number
}

const together = <Activity extends Unlogged>(older: Activity, newer: Activity): Activity => ({
  ...newer,
  at: Math.max(older.at, newer.at),
  count: older.count + newer.count,
})

/**
 * Suspended instances, in memory: a stored event costs one look-up while any instance is suspended, otherwise nothing.
 * Control messages keep it current. The event log decides, so that a superfluous entry only costs a read.
 */
export class SuspendedAgents {
  readonly #deps: Deps
  readonly #held = new Map<string, Held>()
  #active = new Set<string>()
  /** Key that registered it, which identifies the agent if it is the key's only instance. */
  readonly #owners = new Map<string, string>()
  readonly #onlyOf = new Map<string, string>()
  /** Suspended instance by the source that it reports under; null if several instances do. */
  readonly #bySource = new Map<string, string | null>()
  #unlearnt = new Set<string>()
  readonly #unlogged = new WriteBehind<Unlogged>({ merge: together, write: (unlogged) => this.#store(unlogged) })
  /** Suspended instances that hold their key, by the key that registered them. */
  readonly #holders = new Map<string, Set<string>>()
  /** Activity under ids that are not suspended, by keys that are held: what is not registered cannot be suspended. */
  readonly #strangers = new WriteBehind<Unlogged & { owner: string }>({
    merge: together,
    write: (strangers) => this.#attribute(strangers),
    max: maxStrangers,
  })
  #readAt: number | undefined

  constructor(deps: Deps) {
    this.#deps = deps
    deps.bus.onControl(({ instance_id, action, version, issued_at }) => {
      const known = this.#held.get(instance_id)
      if (known !== undefined && known.version > version) return
      if (action === 'suspend') this.#add(instance_id, { version, requestedAt: Date.parse(issued_at) })
      else if (known !== undefined) this.#remove(instance_id)
    })
    deps.bus.onReconnect(() => {
      this.#readAt = undefined
    })
  }

  /** Call with all events stored by this process. */
  noteStored(events: readonly Event[]): void {
    if (this.#held.size === 0) return
    for (const event of events) {
      const { instance_id, source } = event
      if (instance_id === null) continue
      if (this.#held.has(instance_id)) {
        if (isActivity(event)) this.#active.add(instance_id)
        continue
      }
      // Another agent uses this source too, so events without an instance may be from that one.
      const named = this.#bySource.get(source)
      if (named && named !== source) this.#bySource.set(source, null)
    }
  }

  /** Call with events reported by a key: those without a registered instance may be from a suspended one. */
  noteReported(events: readonly Event[], principal: Principal): void {
    if (this.#held.size === 0) return
    for (const event of events) {
      if (!isActivity(event)) continue
      if (event.instance_id !== null) this.#noteStranger(event.instance_id, principal, event.created_at)
      else {
        const id = this.#reporterOf(event, principal)
        if (id !== undefined) this.#noteUnlogged(id, event.created_at)
      }
    }
  }

  #noteStranger(id: string, { scope, registers: { owner } }: Principal, at: number): void {
    if (scope !== 'agent' || !this.#holders.has(owner) || this.#held.has(id)) return
    this.#strangers.note(id, { owner, at, count: 1 })
  }

  /**
   * Call with a decoy check that stored no event: an agent that checks a call is about to make it. `instanceId`: the
   * instance that the caller may act for and named, or the only one of its key.
   */
  noteCheck(instanceId: string | undefined, principal: Principal, at: number): void {
    if (this.#held.size === 0 || !mayBeAgent(principal)) return
    const id = instanceId ?? this.#onlyOf.get(principal.registers.owner)
    if (id === undefined) return
    if (this.#held.has(id)) this.#noteUnlogged(id, at)
    else this.#noteStranger(id, principal, at)
  }

  /**
   * Returns the suspension of the agent that sends a request; undefined while it is active or not identified.
   * `instanceId`: the instance that the request names. Another key learns nothing about it.
   */
  suspensionOf(principal: Principal, instanceId: string | undefined): (Held & { instanceId: string }) | undefined {
    if (this.#held.size === 0 || !mayBeAgent(principal)) return undefined
    const id = instanceId ?? this.#callerOf(principal)
    const held = id === undefined || !mayActFor(principal, id) ? undefined : this.#held.get(id)
    return held && { ...held, instanceId: id! }
  }

  /** Returns the only instance of a key of scope agent. An admin key may be an operator's. */
  #callerOf({ scope, instances, registers: { owner } }: Principal): string | undefined {
    return scope === 'agent' ? (onlyName(instances ?? []) ?? this.#onlyOf.get(owner)) : undefined
  }

  #noteUnlogged(id: string, at: number, count = 1): void {
    this.#unlogged.note(id, { at, count })
  }

  /** Counts activity under ids that are not registered for an agent of the same key that is held. */
  async #attribute(strangers: readonly [string, Unlogged & { owner: string }][]): Promise<void> {
    const ids = strangers.map(([id]) => id)
    const known = await readKnownIds(this.#deps.database, ids)
    for (const [id, { owner, at, count }] of strangers) {
      const [holder] = this.#holders.get(owner) ?? []
      if (holder !== undefined && !known.has(id)) this.#noteUnlogged(holder, at, count)
    }
  }

  /** Returns the suspended instance that this key acts for: its only one, or the one that used the source before. */
  #reporterOf({ source }: Event, { registers: { owner } }: Principal): string | undefined {
    const bySource = this.#bySource.get(source)
    if (bySource && this.#owners.get(bySource) === owner) return bySource
    return this.#onlyOf.get(owner)
  }

  get isEmpty(): boolean {
    return this.#held.size === 0
  }

  /** Returns instances that may have been active since the last call; after a start and once a minute all suspended ones. */
  async takeActive(): Promise<Set<string>> {
    const monotonic = this.#deps.clock.monotonic()
    if (this.#readAt === undefined || monotonic - this.#readAt >= readAgainEveryMs) {
      await this.#readAll()
      this.#readAt = monotonic
    }
    const active = this.#active
    this.#active = new Set()
    return active
  }

  /** Stores activity that is not in the log, and reads the sources of suspended instances. */
  async writeUnlogged(): Promise<void> {
    await this.#strangers.write()
    await this.#unlogged.write()
    await this.#learn()
  }

  async #store(unlogged: readonly [string, Unlogged][]): Promise<void> {
    const { db } = this.#deps.database
    await this.#deps.database.batch(
      unlogged.map(([instanceId, activity]) =>
        activityStatement(db, { instanceId, ...activity }, { graceMs, deliveryMs }),
      ),
    )
  }

  async #learn(): Promise<void> {
    const { db } = this.#deps.database
    const ids = [...this.#unlearnt].slice(0, learntInRun)
    if (ids.length === 0) return
    for (const { id, owner, instances } of await readOwners(db, ids)) {
      this.#owners.set(id, owner)
      if (instances === 1) this.#onlyOf.set(owner, id)
    }
    for (const id of await readKeyHolders(db, ids)) this.#hold(id)
    for (const id of ids) {
      for (const source of await readSources(db, id, sourceEvents)) this.#addSource(source, id)
      this.#unlearnt.delete(id)
    }
  }

  #hold(id: string): void {
    const owner = this.#owners.get(id)
    if (owner === undefined) return
    const holders = this.#holders.get(owner) ?? new Set()
    this.#holders.set(owner, holders.add(id))
  }

  #addSource(source: string, id: string): void {
    const known = this.#bySource.get(source)
    this.#bySource.set(source, known === undefined || known === id || source === id ? id : null)
  }

  #add(id: string, held: Held): void {
    if (!this.#held.has(id)) {
      this.#unlearnt.add(id)
      this.#addSource(id, id)
    }
    this.#held.set(id, held)
  }

  #remove(id: string): void {
    this.#held.delete(id)
    this.#unlearnt.delete(id)
    const owner = this.#owners.get(id)
    if (owner !== undefined && this.#onlyOf.get(owner) === id) this.#onlyOf.delete(owner)
    const holders = this.#holders.get(owner ?? '')
    if (holders?.delete(id) && holders.size === 0) this.#holders.delete(owner!)
    this.#owners.delete(id)
    if (this.#held.size === 0) this.#bySource.clear()
    else if (this.#bySource.get(id) === id) this.#bySource.delete(id)
  }

  /** Puts instances back whose check failed. */
  putBack(instanceIds: Iterable<string>): void {
    for (const id of instanceIds) this.#active.add(id)
  }

  async #readAll(): Promise<void> {
    const { database, clock } = this.#deps
    await database.batch(alignmentStatements(database.db, clock.now()))
    const pages = pagesOf(pageRows, (last?: { instance_id: string }) =>
      readLastingAfter(database.db, last?.instance_id ?? '', pageRows),
    )
    for await (const page of pages) {
      for (const { instance_id, version, requested_at, containment_id, key_containment_id } of page) {
        if (containment_id !== null || key_containment_id !== null) this.#hold(instance_id)
        this.#active.add(instance_id)
        if ((this.#held.get(instance_id)?.version ?? -1) < version)
          this.#add(instance_id, { version, requestedAt: requested_at })
      }
    }
  }
}
