import { type RuleBacktest, ruleLimits } from '@wardline/contract'
import { hourMs, isoTime, startOf } from '../../clock.ts'
import type { Database } from '../../db/database.ts'
import { readEventIds } from '../events/log-statements.ts'
import { readControls } from '../instances/control-statements.ts'
import { readTagged } from '../instances/tag-statements.ts'
import type { CompiledRule } from './language/rule.ts'
import type { Firing } from './language/rule-state.ts'
import { maxTagged } from './responder.ts'

/** Ids per query; SQLite accepts at most 32,766 values. */
const queryIds = 1_000

interface Found {
  firing: Firing
  eventId: string
  instanceId: string | null
}

const cut = (value: string) => value.slice(0, ruleLimits.backtestValueLength)

function* chunksOf<Item>(items: readonly Item[]): Generator<Item[]> {
  for (let at = 0; at < items.length; at += queryIds) yield items.slice(at, at + queryIds)
}

/** Counts what a rule would have done in mode enforce. Memory is bounded, however often the rule fires. */
export class BacktestTally {
  readonly #suspendsInstance: boolean
  readonly #range: { from: number; to: number }
  #firings = 0
  #suppressed = 0
  readonly #hours = new Map<number, number>()
  readonly #instances = new Set<string>()
  /** Instances on which responses would have acted. */
  readonly #acted = new Set<string>()
  readonly #tags: ReadonlySet<string>
  #newest: Found[] = []

  constructor({ document: { response = [] } }: CompiledRule, range: { from: number; to: number }) {
    // The steps of an escalation only differ in the length of the suspension, so any step gives the target.
    this.#suspendsInstance = response.some(({ action }) => action === 'suspend')
    this.#tags = new Set(response.flatMap(({ action, tag }) => (action === 'suspend_tag' ? [tag!] : [])))
    this.#range = range
  }

  #isInRange = (time: number): boolean => time >= this.#range.from && time < this.#range.to

  /** Counts firings beyond the budget of an instance. */
  addSuppressed(time: number, count: number): void {
    if (this.#isInRange(time)) this.#suppressed += count
  }

  /** Counts a firing, unless it is outside the range. */
  add(firing: Firing): void {
    if (!this.#isInRange(firing.time)) return
    this.#firings += 1
    const hour = startOf(firing.time, hourMs)
    this.#hours.set(hour, (this.#hours.get(hour) ?? 0) + 1)
    const { id, instance_id } = firing.event
    this.#newest.push({ firing, eventId: id, instanceId: instance_id })
    if (this.#newest.length >= 2 * ruleLimits.backtestSamples) {
      this.#newest = this.#newest.slice(-ruleLimits.backtestSamples)
    }
    if (instance_id === null || this.#instances.size >= ruleLimits.firingInstances) return
    this.#instances.add(instance_id)
    if (firing.ofOneInstance) this.#acted.add(instance_id)
  }

  /** Returns the result, for which it reads the ids of the shown events. */
  async result(
    database: Pick<Database, 'scan' | 'dialect'>,
    keyId: string,
  ): Promise<Pick<RuleBacktest, 'firings' | 'suppressed' | 'instances' | 'suspensions' | 'samples' | 'hours'>> {
    const shown = this.#newest.slice(-ruleLimits.backtestSamples).reverse()
    const seqs = new Set(shown.flatMap(({ firing }) => firing.events))
    const ids = new Map<number, string>()
    for (const chunk of chunksOf([...seqs])) {
      for (const [seq, id] of await database.scan(keyId, (db) => readEventIds(db, chunk))) ids.set(seq, id)
    }
    return {
      firings: this.#firings,
      suppressed: this.#suppressed,
      instances: this.#instances.size,
      suspensions: await this.#countSuspended(database, keyId),
      samples: shown.map(({ firing, eventId, instanceId }) => ({
        seq: firing.seq,
        event_id: eventId,
        at: isoTime(firing.time),
        group: (JSON.parse(firing.group) as string[]).map(cut),
        instance_id: instanceId,
        count: firing.count,
        events: firing.events.flatMap((seq) => {
          const id = ids.get(seq)
          return id === undefined ? [] : [{ seq, id }]
        }),
      })),
      hours: [...this.#hours].map(([hour, count]) => ({ hour: isoTime(hour), count })),
    }
  }

  /** Counts the instances to suspend: only one that sent a heartbeat can be suspended. */
  async #countSuspended({ scan, dialect }: Pick<Database, 'scan' | 'dialect'>, keyId: string): Promise<number> {
    if (this.#firings === 0) return 0
    const suspended = new Set<string>()
    if (this.#suspendsInstance) {
      for (const chunk of chunksOf([...this.#acted])) {
        const known = await scan(keyId, (db) => readControls({ db, dialect }, chunk))
        for (const id of known.keys()) suspended.add(id)
      }
    }
    for (const tag of this.#tags) {
      for (const id of await scan(keyId, (db) => readTagged(db, tag, maxTagged))) suspended.add(id)
    }
    return suspended.size
  }
}
