import { type SearchHit, type SearchKind, type SearchReply, searchKinds, titleOf } from '@wardline/contract'
import { textCost } from '@wardline/text'
import { isoTime, minuteMs } from '../../clock.ts'
import { readTeamAgents, type Team } from '../../db/teams.ts'
import type { Deps } from '../../deps.ts'
import { SharedRun } from '../../shared-run.ts'
import type { Piece } from '../../work-turns.ts'
import { readNewestAlerts } from '../alerts/alerts.ts'
import { readEventsByIdPrefix } from '../events/log-statements.ts'
import { readPolicyTitles } from '../policies/title-statements.ts'
import { readListNames, readRuleTitles } from '../rules/title-statements.ts'
import { NameIndex } from './name-index.ts'
import { agentNames, decoyNames, nothing, readAgents } from './named.ts'
import { type Asked, asked, BestHits, rankOf, SearchIndex } from './search-index.ts'

/** Without a search for this long, names are forgotten: in most services nobody searches for hours. */
const keptMs = 10 * minuteMs
const maxAlerts = 1_000
/** Alerts, rules, policies and lists are read again after this, not with every letter that a person types. */
const currentMs = 1_000

/** A UUID or its beginning. */
const idPrefix = /^[0-9a-f]{8}(-|$)[0-9a-f-]{0,27}$/

/** Settings by name. They do not change while the service runs; their values are not searched. */
const indexSettings = (settings: readonly { name: string; meaning: string }[]): SearchIndex =>
  new SearchIndex(
    'setting',
    settings.map(({ name, meaning }) => ({
      hit: { ...nothing, id: name, title: name, detail: meaning },
      text: `${name} ${meaning}`,
    })),
  )

/** More agents of a team are not found by name: their ids are read with every letter that a person types. */
const maxTeamAgents = 50_000

/** Kinds that name no agent. */
const globalKinds: ReadonlySet<SearchKind> = new Set(['rule', 'policy', 'list', 'setting'])

interface Asking {
  q: string
  limit: number
  keyId: string
  team: Team
  /** Whether the caller may read the configuration. */
  hasSettings: boolean
  piece: Piece
}

type Groups = ReturnType<BestHits['groups']>

/** Finds what the service knows by name. */
export class Search {
  readonly #deps: Pick<Deps, 'database' | 'clock'>
  readonly #settings: SearchIndex
  readonly #current: SharedRun<SearchIndex[]>
  readonly #names: { agent: ReturnType<typeof agentNames>; decoy: ReturnType<typeof decoyNames> }
  #indexes: { agents: NameIndex; decoys: NameIndex }
  #askedAt = 0
  readonly #answering = new Set<Promise<SearchReply>>()

  constructor(
    deps: Pick<Deps, 'database' | 'clock'>,
    { configuration }: { configuration: readonly { name: string; meaning: string }[] },
  ) {
    this.#deps = deps
    this.#settings = indexSettings(configuration)
    this.#names = { agent: agentNames(deps.database), decoy: decoyNames(deps.database) }
    this.#indexes = this.#openIndexes()
    this.#current = new SharedRun(() => this.#readCurrent(), { clock: deps.clock, keptMs: currentMs })
  }

  #openIndexes() {
    const { agent, decoy } = this.#names
    const { clock } = this.#deps
    return { agents: new NameIndex(agent, clock), decoys: new NameIndex(decoy, clock) }
  }

  /** Frees the memory of the names if nobody has searched for a while. */
  forget(): void {
    if (this.#deps.clock.monotonic() - this.#askedAt >= keptMs) this.#indexes = this.#openIndexes()
  }

  async find(asking: Asking): Promise<SearchReply> {
    this.#askedAt = this.#deps.clock.monotonic()
    const { agents, decoys } = this.#indexes
    const answer = this.#answer(asking, { agents, decoys })
    this.#answering.add(answer)
    try {
      return await answer
    } finally {
      this.#answering.delete(answer)
      // After the reply is sent, and a page at a time between searches: nobody waits for names that are read.
      const isFree = () => Promise.allSettled(this.#answering)
      setImmediate(() => void Promise.all([agents.refresh(isFree), decoys.refresh(isFree)]))
    }
  }

  async #answer(
    { q, limit, keyId, team, hasSettings, piece }: Asking,
    { agents, decoys }: { agents: NameIndex; decoys: NameIndex },
  ): Promise<SearchReply> {
    const query = asked(q)
    const { isShown, isWhole } = await this.#shown(team, keyId)
    const best = new BestHits(limit, isShown)
    const namedAgents = await agents.get()
    const words = namedAgents.isComplete ? [] : query.words.map(({ word }) => word)
    // First the longest read: the others are processed while it is under way.
    const [, namedDecoys, current] = await Promise.all([
      this.#findAgents(query, best, { limit, keyId, words, team }),
      decoys.get(),
      this.#current.get(),
      this.#findEvents(query, best, { limit, keyId, team }),
    ])
    const named = [namedAgents, namedDecoys]
    const budget = piece.budget(Infinity)
    const indexes = [...named.flatMap((each) => each.indexes), ...current, ...(hasSettings ? [this.#settings] : [])]
    for (const index of indexes) await piece.inTurns(index.find(query, best, budget))
    const groups = await this.#readAgain(best.groups(searchKinds), query, keyId)
    return { groups, complete: isWhole && named.every(({ isComplete }) => isComplete) }
  }

  /** Which hits the caller may see, and whether that covers its whole team. */
  async #shown(team: Team, keyId: string) {
    if (!team) return { isShown: () => true, isWhole: true }
    const ids = await this.#deps.database.scan(keyId, (db) => readTeamAgents(db, team, maxTeamAgents))
    const known = new Set(ids)
    const isShown = (kind: SearchKind, { id, instance_id }: SearchHit) =>
      globalKinds.has(kind) || known.has(kind === 'agent' ? id : (instance_id ?? ''))
    return { isShown, isWhole: ids.length < maxTeamAgents }
  }

  async #findEvents(
    { text }: Asked,
    best: BestHits,
    { limit, keyId, team }: { limit: number; keyId: string; team: Team },
  ) {
    if (!idPrefix.test(text)) return
    for (const event of await this.#deps.database.scan(keyId, (db) => readEventsByIdPrefix(db, text, limit, team))) {
      const { id, seq, severity, instance_id } = event
      const title = titleOf({ ...event, by_service: event.by_service === 1 })
      const hit = { id, title, detail: severity, instance_id, seq, at: isoTime(event.created_at) }
      best.add({ kind: 'event', hit, rank: -1 })
    }
  }

  /** Adds agents that the index may not have yet. */
  async #findAgents(
    query: Asked,
    best: BestHits,
    { limit, keyId, words, team }: { limit: number; keyId: string; words: readonly string[]; team: Team },
  ): Promise<void> {
    for (const { hit, text } of await readAgents(this.#deps.database, keyId, {
      prefix: query.text,
      words,
      limit,
      team,
    })) {
      const cost = textCost(query.words, text)
      if (cost !== undefined) best.add({ kind: 'agent', hit, rank: rankOf(query, hit, cost) })
    }
  }

  /** Returns agents and decoys as they are now, without those that no longer match. */
  async #readAgain(groups: Groups, query: Asked, keyId: string): Promise<Groups> {
    const read = await Promise.all(
      groups.map(async ({ kind, hits }) => {
        if (kind !== 'agent' && kind !== 'decoy') return { kind, hits }
        const entries = await this.#names[kind].entries(
          keyId,
          hits.map(({ id }) => id),
        )
        const matching = entries.filter(({ text }) => textCost(query.words, text) !== undefined)
        const byId = new Map(matching.map(({ hit }) => [hit.id, hit]))
        return { kind, hits: hits.map(({ id }) => byId.get(id)).filter((hit) => hit !== undefined) }
      }),
    )
    return read.filter(({ hits }) => hits.length > 0)
  }

  async #readCurrent(): Promise<SearchIndex[]> {
    const [alerts, rules, policies, lists] = await this.#deps.database.scan('search', async (db) => [
      await readNewestAlerts(db, maxAlerts),
      await readRuleTitles(db),
      await readPolicyTitles(db),
      await readListNames(db),
    ])
    const ofAlerts = alerts.map((alert) => {
      const title = titleOf({ ...alert, by_service: alert.by_service === 1 })
      const { id, event_type, instance_id, severity, status } = alert
      const hit = {
        ...nothing,
        id,
        title,
        detail: `${severity}, ${status}`,
        instance_id,
        at: isoTime(alert.created_at),
      }
      return { hit, text: `${title} ${event_type} ${instance_id ?? ''}` }
    })
    const byTitle = (rows: readonly { id: string; title: string; mode: string }[]) =>
      rows.map(({ id, title, mode }) => ({ hit: { ...nothing, id, title, detail: mode }, text: title }))
    const ofLists = lists.map(({ name, description }) => ({
      hit: { ...nothing, id: name, title: name, detail: description },
      text: `${name} ${description}`,
    }))
    return [
      new SearchIndex('alert', ofAlerts),
      new SearchIndex('rule', byTitle(rules)),
      new SearchIndex('policy', byTitle(policies)),
      new SearchIndex('list', ofLists),
    ]
  }
}
