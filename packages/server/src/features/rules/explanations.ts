import { setImmediate } from 'node:timers/promises'
import {
  type EventRow,
  type ExceptionBody,
  eventColumns,
  eventTypes,
  type RuleExplanation,
  type RuleMatch,
  ruleLimits,
} from '@wardline/contract'
import type { Db } from '../../db/database.ts'
import type { StoredEvent } from '../../db/schema/events.ts'
import { readTeam, type Team } from '../../db/teams.ts'
import { AppError } from '../../errors.ts'
import { readEventsBetween } from '../events/log-statements.ts'
import { ruleEventsOf } from './event-log.ts'
import { withException } from './exception-text.ts'
import { explainMatch } from './language/explain.ts'
import type { RuleEvent } from './language/fields.ts'
import { anyLists } from './language/placeholders.ts'
import type { CompiledRule } from './language/rule.ts'
import { readListsOf } from './list-queries.ts'
import { type FiringEvents, findFiringOf, findFiringWith, findRule, findVersion, readFiringsAt } from './queries.ts'
import { readRule } from './rule-text.ts'
import { unknownRule } from './rules.ts'

/** A stored row reads its columns when asked, which JSON would not show. */
const plain = (row: EventRow) => Object.fromEntries(eventColumns.map((name) => [name, row[name]])) as EventRow

/** Finds an event of the team's agents. */
async function findEvent(db: Db, seq: number, team: Team): Promise<StoredEvent | undefined> {
  const [event] = await readEventsBetween(db, { after: seq - 1, upTo: seq, limit: 1 })
  if (!event || !team) return event
  const { instance_id: id } = event
  return id !== null && (await readTeam(db, team, [id])).has(id) ? event : undefined
}

/** Firings to explain, each with the events of it that are asked about. */
async function firingsOf(db: Db, event: StoredEvent, ruleId: string | undefined): Promise<FiringEvents[]> {
  if (event.by_service === 1 && event.event_type === eventTypes.ruleMatched && ruleId === undefined) {
    const { rule } = JSON.parse(event.metadata ?? '{}') as { rule?: string }
    const firing =
      rule === undefined ? undefined : await findFiringOf(db, { rule, matchedId: event.id, seq: event.seq })
    return firing ? [{ ...firing, seqs: firing.seqs.slice(-ruleLimits.explainedEvents) }] : []
  }
  const alone = (firing: FiringEvents): FiringEvents => ({ ...firing, seqs: [event.seq] })
  if (ruleId === undefined) return (await readFiringsAt(db, event.seq)).map(alone)
  const firing = await findFiringWith(db, ruleId, event.seq)
  if (firing) return [alone(firing)]
  const rule = await findRule(db, ruleId)
  return rule ? [{ rule_id: rule.id, version: rule.version, seqs: [event.seq] }] : []
}

/** Reads a stored text with the lists as they are now; one that is gone is empty. */
async function readStored(db: Db, text: string) {
  const lists = await readListsOf(db, [text])
  return readRule(text, { get: (name) => lists.get(name) ?? [] })
}

/**
 * Explains a match. An event may have fired before what it names was added to a list of exceptions: the rest of the
 * conditions is then explained as if the lists were empty.
 */
function explanationOf(rule: CompiledRule, text: string): (event: RuleEvent) => RuleMatch[] {
  if (rule.lists.size === 0) return (event) => explainMatch(rule, event)
  const { rule: without } = readRule(text, anyLists)
  return (event) => {
    const found = explainMatch(rule, event)
    return found.length > 0 ? found : explainMatch(without, event)
  }
}

/** Throws AppError `not_found`. */
export async function explainEvent(
  db: Db,
  asked: { event: string; rule?: string },
  team: Team,
): Promise<RuleExplanation> {
  const seq = Number(asked.event)
  const event = await findEvent(db, seq, team)
  if (!event) throw new AppError('not_found', `No event with seq ${seq}. Retention may have deleted it.`)
  const rules: RuleExplanation['rules'] = []
  for (const { rule_id, version, seqs } of await firingsOf(db, event, asked.rule)) {
    const stored = await findVersion(db, rule_id, version)
    if (!stored) continue
    const { rule } = await readStored(db, stored.text)
    const explain = explanationOf(rule, stored.text)
    const found = await Promise.all(seqs.map((each) => findEvent(db, each, team)))
    const events = []
    for (const each of await ruleEventsOf(
      db,
      found.filter((one) => one !== undefined),
      true,
    )) {
      // One event may cost the rule's limit several times: others go on in between.
      await setImmediate()
      events.push({ event: plain(each.row), matches: explain(each) })
    }
    rules.push({ id: rule_id, title: rule.document.title, version, events })
  }
  return { rules }
}

/** Throws AppError `not_found` or `invalid`. */
export async function draftException(db: Db, id: string, body: ExceptionBody) {
  const row = await findRule(db, id)
  if (!row) throw unknownRule(id)
  const { text: before, rule } = await readStored(db, row.text)
  const text = withException(before, rule.document, body)
  await readStored(db, text)
  return { version: row.version, before, text }
}
