import type { Deps } from '../../deps.ts'
import { readTraits, type Traits } from '../instances/traits.ts'
import { type Borrowed, isMature, maxBuckets } from './baseline.ts'
import { decodeBaseline } from './baseline-state.ts'
import { readBaselinePage } from './queries.ts'
import { emptySummary, merge, type Summary } from './summary.ts'

/** Minimum agents of a group: with fewer, each would dominate what is usual. */
const minAgents = 3
/** Maximum agents of a group: more hardly change what is usual, and each costs time. */
const maxAgents = 50
/** Maximum groups: agents choose types and tags, and invented ones must not fill the memory. */
const maxGroups = 2_000
/** Baselines read per refresh: 20 MiB. A larger fleet is represented by a part of it. */
const maxRows = 20_000
/** Decoding and merging a page takes a few milliseconds. */
const pageRows = 100
/** Equal weight of each agent, however often it reports. */
const agentWeight = 1_000

interface Group {
  agents: number
  summary: Summary
}

/** Summaries of the fleet, for baselines that are too young to be used alone. */
export class FleetBaselines {
  readonly #deps: Pick<Deps, 'database'>
  #groups = new Map<string, Group>()

  constructor(deps: Pick<Deps, 'database'>) {
    this.#deps = deps
  }

  /** Periodic job: computes the summaries of the fleet from baselines that are old enough. */
  async refresh(now: number, stopping?: AbortSignal): Promise<void> {
    const { database } = this.#deps
    const groups = new Map<string, Group>()
    let after = { instance_id: '', metric: '' }
    // The first scan opens a connection and its thread, which a service without baselines does not need.
    const [first] = await readBaselinePage(database.db, after, 1)
    for (let rows = 0; first && rows < maxRows && !stopping?.aborted; rows += pageRows) {
      const page = await database.scan('baselines of the fleet', (db) => readBaselinePage(db, after, pageRows))
      const traits = await readTraits(database.db, [...new Set(page.map(({ instance_id }) => instance_id))])
      for (const { instance_id, metric, state } of page) {
        const baseline = decodeBaseline(state)
        const traitsOfIt = traits.get(instance_id)
        if (!baseline || !traitsOfIt || !isMature(baseline, now)) continue
        for (const key of groupsOf(metric, traitsOfIt)) add(groups, key, baseline.main)
      }
      if (page.length < pageRows) break
      after = page.at(-1)!
    }
    this.#groups = groups
  }

  /** The summary of agents like this one, of the closest kind that there are enough of; null when there are none. */
  find(metric: string, traits: Traits | undefined): Borrowed | null {
    for (const key of groupsOf(metric, traits ?? { agentType: null, tags: [] })) {
      const group = this.#groups.get(key)
      if (group && group.agents >= minAgents) return { basis: basisOf(key), summary: group.summary }
    }
    return null
  }
}

/** Returns the groups of an agent, closest first. */
function groupsOf(metric: string, { agentType, tags }: Traits): string[] {
  const keys = tags.map((tag) => JSON.stringify(['tag', tag, metric]))
  if (agentType !== null) keys.unshift(JSON.stringify(['type', agentType, metric]))
  return [...keys, JSON.stringify(['fleet', metric])]
}

const basisOf = (key: string): Borrowed['basis'] => (JSON.parse(key) as [Borrowed['basis']])[0]

function add(groups: Map<string, Group>, key: string, summary: Summary): void {
  const group = groups.get(key)
  if (!group && groups.size >= maxGroups) return
  if (group && group.agents >= maxAgents) return
  const merged = merge(group?.summary ?? emptySummary, 1, summary, agentWeight / summary.total, maxBuckets.main)
  groups.set(key, { agents: (group?.agents ?? 0) + 1, summary: merged })
}
