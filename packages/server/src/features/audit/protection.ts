import type { Statement } from '../../db/database.ts'
import type { Action, Actor } from './audit.ts'

/** A change that reduces protection. */
interface Reduction {
  severity: 'warning' | 'critical'
  /** Predicate of a sentence. Ids and types only: a label or path would tell where decoys are. */
  text: string
}

/** Alerts about changes that reduce protection. Injected, because the alerts feature imports this one. */
export interface ProtectionAlerts {
  /**
   * Returns statements for the batch of a change; none for most changes. They belong before its audit entry, because locks
   * taken in different orders could deadlock.
   */
  statements(actor: Actor, action: Action, now: number): Statement[]
}

type State = Record<string, unknown>

const modes = ['observe', 'alert', 'enforce']
const modeRank = ({ mode }: State): number => modes.indexOf(String(mode))
/** `enforce_for`: a policy in mode observe decides for some agents. */
const isActive = (rule: State): boolean => modeRank(rule) > 0 || rule.enforce_for === true

type Noun = 'rule' | 'policy'

const lower = (noun: Noun, id: string, before: State, after: State): Reduction | undefined =>
  modeRank(after) < modeRank(before)
    ? { severity: 'critical', text: `lowered the mode of the ${noun} ${id} from ${before.mode} to ${after.mode}` }
    : undefined

/** Fields of a rule or policy that change neither what it finds nor what it does. */
const proseFields: readonly unknown[] = ['title', 'id', 'description', 'tests', 'mode']

/**
 * A new text may match less, respond less, or have new exceptions; only a person can tell. Of a rule that enforces, this
 * disables as much as a lower mode. Files are changed by those who may change the host.
 */
function rewritten(noun: Noun, id: string, before: State, after: State): Reduction | undefined {
  if (!isActive(before) || before.version === after.version || after.file !== undefined) return undefined
  const changed = (after.changed as readonly string[]).filter((field) => !proseFields.includes(field))
  const isDisabling = before.mode === 'enforce' && changed.length > 0
  const what = changed.length > 0 ? ` (changed: ${changed.join(', ')})` : ''
  return {
    severity: isDisabling ? 'critical' : 'warning',
    text: `replaced the ${noun} ${id}, which is in mode ${after.mode}${what}`,
  }
}

/** The reductions by changes of rules, and of policies. */
const reductionsOf = (noun: Noun) => ({
  [`${noun}.mode`]: (id: string, before: State, after: State) => lower(noun, id, before, after),
  [`${noun}.change`]: (id: string, before: State, after: State) =>
    lower(noun, id, before, after) ?? rewritten(noun, id, before, after),
  [`${noun}.delete`]: (id: string, before: State): Reduction => ({
    severity: isActive(before) ? 'critical' : 'warning',
    text: `deleted the ${noun} ${id}, which was in mode ${before.mode}${before.file === undefined ? '' : ': its file is gone'}`,
  }),
})

/** The reductions by audited action. Changes of alerting itself are in `alerts/routing/changes.ts`. */
const reductions: Record<string, (id: string, before: State, after: State) => Reduction | undefined> = {
  'decoy_ignore.create': (id, _, { tool, until_at }) => ({
    severity: 'critical',
    text: `had the service ignore decoy hits by the tool ${JSON.stringify(tool)} until ${new Date(Number(until_at)).toISOString()} (ignore rule ${id})`,
  }),
  'honeypot.delete': (id, { type }) => ({
    severity: 'critical',
    text: `deleted the decoy ${id}, a ${type === 'api_key' ? 'key' : 'path'}`,
  }),
  ...reductionsOf('rule'),
  ...reductionsOf('policy'),
  // An entry more may be an exception more, and only a person can tell.
  'list.change': (id, _, { active_rules, added, removed }) =>
    active_rules === undefined || Number(added) + Number(removed) === 0
      ? undefined
      : {
          severity: 'warning',
          text: `changed the list ${id}, which rules that alert or enforce use (${added} added, ${removed} removed)`,
        },
  // Calls that a person would have decided one by one are not asked about.
  'allowance.create': (_, __, { instance_id, tool, max_calls, expires_at }) => ({
    severity: 'warning',
    text: `allowed ${instance_id} up to ${max_calls} calls of ${JSON.stringify(tool)} without asking, until ${expires_at}`,
  }),
  'instance.delete': (id) => ({ severity: 'warning', text: `deleted the instance ${id}` }),
  'people.roles': (_, before, after) => {
    const admins = (mappings: State) =>
      Object.values(mappings)
        .filter((mapping) => (mapping as State).role === 'admin')
        .map((mapping) => JSON.stringify([(mapping as State).group, (mapping as State).email]))
    const added = admins(after).filter((admin) => !admins(before).includes(admin)).length
    return {
      severity: added > 0 ? 'critical' : 'warning',
      text: `changed which groups have which role${added > 0 ? `: ${added} more of them admin` : ''}`,
    }
  },
  'passkey.create': (id, _, { name }) => ({
    severity: 'warning',
    text: `registered the passkey ${JSON.stringify(name)} of the local admin (${id})`,
  }),
  'people.only': (_, __, { people_only }) =>
    people_only === true ? undefined : { severity: 'warning', text: 'let keys open sessions again, beside people' },
  'baseline.reset': (id) => ({ severity: 'warning', text: `reset the baseline ${id}: it is learned again` }),
  'baseline.accept': (id) => ({ severity: 'warning', text: `accepted the level of the baseline ${id} as usual` }),
}

/** Returns how an audited change reduces protection; undefined if it does not. */
export const reductionOf = ({ action, target, before, after }: Action): Reduction | undefined =>
  reductions[action]?.(target ?? '', (before ?? {}) as State, (after ?? {}) as State)
