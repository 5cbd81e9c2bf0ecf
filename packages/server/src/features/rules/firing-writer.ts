import { eventTypes, type RuleDocument, ruleLimits } from '@wardline/contract'
import { dayMs, hourMs, startOf } from '../../clock.ts'
import type { RowsOf, Statement } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import type { EventToStore, Ingest } from '../events/ingest.ts'
import { readEventIds } from '../events/log-statements.ts'
import { durationMs } from './language/duration.ts'
import type { Firing } from './language/rule-state.ts'
import {
  countGroupFirings,
  type FiringRow,
  type HourRow,
  type PendingResponse,
  type ResponseRow,
  runnerStatements,
} from './runner-queries.ts'
import type { RunningRule } from './running-rule.ts'

/** A rule that fired. */
export interface Matched {
  rule: RunningRule
  firing: Firing
}

/** A further firing of the group within this time uses the next step of an escalation. */
const escalationMs = dayMs

type Response = NonNullable<RuleDocument['response']>[number]

/** Responses of one kind about one target are the steps of an escalation: each firing uses one of them. */
const ladderOf = ({ action, tag }: Response): string | undefined =>
  action === 'suspend' ? 'suspend' : action === 'suspend_tag' ? `tag ${tag}` : undefined

/** Returns the responses of a firing: of each escalation, the step for the number of earlier firings. */
function responsesOf(responses: readonly Response[], firingsBefore: number): Response[] {
  const ladders = new Map<string, Response[]>()
  for (const response of responses) {
    const name = ladderOf(response)
    if (name !== undefined) ladders.set(name, [...(ladders.get(name) ?? []), response])
  }
  const chosen = new Set([...ladders.values()].map((steps) => steps[Math.min(firingsBefore, steps.length - 1)]))
  return responses.filter((response) => ladderOf(response) === undefined || chosen.has(response))
}

const targetOf = ({ action, channel, tag, point }: Response, instanceId: string | null): string | null =>
  ({ alert: channel, suspend: instanceId, suspend_tag: tag, call: point })[action] ?? null

/** Responses that act on the instance of the event. */
const isAboutInstance = ({ action }: Response): boolean => action === 'suspend' || action === 'call'

/**
 * Why the instance is left alone; undefined if it is not. An agent that shares a session or an address with another must not
 * be able to have it suspended.
 */
const sharedSentence = ({ firing }: Pick<Matched, 'firing'>): string | undefined =>
  firing.ofOneInstance
    ? undefined
    : 'The firing depends on events of several agents: a person decides about whom to suspend.'

/** Builds the statements that store firings: rows, rule_matched events, alerts and pending responses. */
export function createFiringWriter({ database }: Pick<Deps, 'database'>, { ingest }: { ingest: Ingest }) {
  const statements = runnerStatements(database)

  /** `earlier`: number of earlier firings of the same group in the same batch. */
  async function responseRows(each: Matched, earlier: number, now: number): Promise<ResponseRow[]> {
    const { rule, firing } = each
    const shared = sharedSentence(each)
    const { mode } = rule.row
    if (mode === 'observe') return []
    const { response = [] } = rule.compiled.document
    const escalates = new Set(response.map(ladderOf)).size < response.length && response.length > 1
    const since = firing.time - escalationMs
    const before = escalates ? earlier + (await countGroupFirings(database.db, rule.row.id, firing.group, since)) : 0
    const chosen = responsesOf(response, before).filter(({ action }) => action === 'alert' || mode === 'enforce')
    return chosen.map((given, position): ResponseRow => {
      const isShared = shared !== undefined && isAboutInstance(given)
      return {
        rule_id: rule.row.id,
        seq: firing.seq,
        position,
        action: given.action,
        target: targetOf(given, firing.event.instance_id),
        duration_ms: given.for === undefined ? null : durationMs(given.for),
        // The alert is written with the firing.
        state: given.action === 'alert' ? 'done' : isShared ? 'skipped' : 'pending',
        detail: isShared ? shared : null,
        created_at: now,
      }
    })
  }

  function matchedEvent({ rule, firing }: Matched, events: readonly (readonly [number, string])[]): EventToStore {
    const { id, title, version, mode, severity } = rule.row
    const isQuiet = mode === 'observe'
    const isHeldBack = mode === 'enforce' && rule.compiled.document.response?.some(isAboutInstance)
    const shared = isHeldBack ? sharedSentence({ firing }) : undefined
    const own = ingest.own({
      // A match of a rule in mode observe is not an incident.
      severity: isQuiet ? 'info' : severity,
      event_type: eventTypes.ruleMatched,
      description: `Rule matched: ${title}${shared === undefined ? '' : `. Nobody was suspended. ${shared}`}`,
      ...(firing.event.instance_id === null ? {} : { instance_id: firing.event.instance_id }),
      ...(firing.event.session_id === null ? {} : { session_id: firing.event.session_id }),
      metadata: {
        rule: id,
        title,
        version,
        mode,
        events: events.map(([, eventId]) => eventId),
        group: JSON.parse(firing.group),
        count: firing.count,
      },
    })
    const alerts = (rule.compiled.document.response ?? []).filter(({ action }) => action === 'alert')
    const channels = alerts.flatMap(({ channel }) => channel ?? [])
    // An alert without channel names is for all channels.
    const named = alerts.length > 0 && channels.length === alerts.length ? { channels } : {}
    return { ...own, alerting: { isQuiet, subject: id, ...named } }
  }

  return {
    /** Call `stored` after the commit. */
    async prepare(
      matched: readonly Matched[],
      now: number,
    ): Promise<{ statements: Statement[]; pending: PendingResponse[]; stored(rowsOf: RowsOf): void }> {
      if (matched.length === 0) return { statements: [], pending: [], stored() {} }
      const own = new Map(matched.map(({ firing: { event } }) => [event.seq!, event.id]))
      const others = new Set(matched.flatMap(({ firing }) => firing.events).filter((seq) => !own.has(seq)))
      const ids = await readEventIds(database.db, [...others])
      const firings: FiringRow[] = []
      const events: EventToStore[] = []
      const responses: PendingResponse[] = []
      const groups = new Map<string, number>()
      const hours = new Map<string, HourRow>()
      for (const each of matched) {
        const { rule, firing } = each
        const { event } = firing
        const known = firing.events.flatMap((seq) => {
          const id = own.get(seq) ?? ids.get(seq)
          return id === undefined ? [] : [[seq, id] as const]
        })
        const named = matchedEvent(each, known.slice(-ruleLimits.firingEvents))
        events.push(named)
        firings.push({
          rule_id: rule.row.id,
          seq: firing.seq,
          version: rule.row.version,
          mode: rule.row.mode,
          group_key: firing.group,
          instance_id: event.instance_id,
          by_service: event.by_service ? 1 : 0,
          event_id: event.id,
          fired_at: firing.time,
          count: firing.count,
          events: JSON.stringify(known),
          matched_id: named.id,
          created_at: now,
        })
        const hour = startOf(firing.time, hourMs)
        const counted = hours.get(`${rule.row.id} ${hour}`) ?? { rule_id: rule.row.id, hour, count: 0, suppressed: 0 }
        counted.count += 1
        hours.set(`${rule.row.id} ${hour}`, counted)
        const group = JSON.stringify([rule.row.id, firing.group])
        const rows = await responseRows(each, groups.get(group) ?? 0, now)
        const { title, version } = rule.row
        const cause = { title, version, event_id: event.id, instance_id: event.instance_id }
        responses.push(...rows.map((row) => ({ ...row, ...cause })))
        groups.set(group, (groups.get(group) ?? 0) + 1)
      }
      const prepared = ingest.prepare(events)
      return {
        statements: [
          ...prepared.statements,
          statements.firings(firings),
          statements.hours([...hours.values()]),
          ...(responses.length > 0 ? [statements.responses(responses)] : []),
        ],
        pending: responses.filter(({ state }) => state === 'pending'),
        stored: prepared.stored,
      }
    },
  }
}
