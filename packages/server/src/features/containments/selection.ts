import {
  type AgentSelector,
  type ContainmentAction,
  type ContainmentPlan,
  confirmText,
  limits,
  offlineAfterMs,
} from '@wardline/contract'
import type { Team } from '../../db/teams.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { heldByParent } from '../control/kill-switch.ts'
import {
  isTagKnown,
  readKnownIds,
  readTagSets,
  type SelectedRow,
  selectFleet,
  type TagsOf,
} from '../instances/fleet-statements.ts'
import { readSuspendedParents } from '../instances/parent-statements.ts'
import { readTags } from '../instances/tags.ts'
import { parentsBeside, parentsFirst } from './parents-first.ts'
import { readStopVerdicts } from './stop-verdicts.ts'

/** Rows per read: some five milliseconds. */
const pageRows = 2_000
/** Tags listed in an error, and tag sets read to find them. */
const shownTags = 20
const readSets = 200

async function unknownTag({ database: { db } }: Deps, tag: string, tagsOf: TagsOf, team: Team): Promise<AppError> {
  const known = new Set((await readTagSets(db, readSets, tagsOf, team)).flatMap(readTags))
  const shown = [...known].sort().slice(0, shownTags).join(', ')
  if (tagsOf === 'operators' && (await isTagKnown(db, tag, 'anyone', team))) {
    return new AppError(
      'invalid',
      `Agents gave the tag ${tag} to themselves, which does not count for a resume: select instances, or set the tag with \`wardline instances tag\`.`,
    )
  }
  const hint = shown === '' ? 'no instance has any tag' : `tags in use: ${shown}${known.size > shownTags ? ', …' : ''}`
  return new AppError('invalid', `No instance has the tag ${tag}; ${hint}.`)
}

/** Throws AppError `invalid` unless the selector has exactly one property, with ids or tags that exist in the team. */
async function assertKnown(
  deps: Deps,
  { instances, tags, all }: AgentSelector,
  { tagsOf, team }: { tagsOf: TagsOf; team: Team },
): Promise<void> {
  const given = [instances, tags, all].filter((part) => part !== undefined)
  if (given.length !== 1) throw new AppError('invalid', 'selector must have exactly one of instances, tags and all.')
  for (const tag of tags ?? []) {
    if (!(await isTagKnown(deps.database.db, tag, tagsOf, team))) throw await unknownTag(deps, tag, tagsOf, team)
  }
  if (!instances) return
  const known = await readKnownIds(deps.database, instances, team)
  const unknown = instances.find((id) => !known.has(id))
  if (unknown !== undefined) {
    throw new AppError('invalid', `No instance with id ${unknown}; \`wardline instances\` lists them.`)
  }
}

/**
 * Returns the selected agents that an action concerns, ordered by id; without an action, all selected agents. A stop
 * concerns suspended agents whose suspension it takes over, or whose key is not held yet.
 * `twoPerson`: their resume needs two operators. `team`: only its agents are selected, and known. Throws AppError `invalid` or `parent_suspended`.
 */
export async function selectAgents(
  deps: Deps,
  action: ContainmentAction | undefined,
  selector: AgentSelector,
  { twoPerson = false, team }: { twoPerson?: boolean; team: Team },
): Promise<SelectedRow[]> {
  // By a tag that it gives itself an agent may join a stop, but not those that are resumed.
  const tagsOf: TagsOf = action === 'resume' ? 'operators' : 'anyone'
  await assertKnown(deps, selector, { tagsOf, team })
  const { database } = deps
  const state = action === 'resume' ? { suspended: true } : {}
  const rows: SelectedRow[] = []
  for (let after = ''; ; ) {
    const page = await selectFleet(database, database.db, selector, { ...state, tagsOf, team, after, limit: pageRows })
    const suspended = action === 'suspend' ? page.filter((row) => row.suspended === 1) : []
    const concerned = await readStopVerdicts(database, suspended, twoPerson)
    rows.push(...page.filter((row) => action !== 'suspend' || row.suspended === 0 || concerned.has(row.id)))
    if (page.length < pageRows) return action === 'resume' ? resumable(deps, rows) : rows
    after = page.at(-1)!.id
  }
}

/** Leaves out agents that the suspension of a parent holds which is not selected. Throws AppError `parent_suspended`. */
async function resumable({ database }: Deps, rows: readonly SelectedRow[]): Promise<SelectedRow[]> {
  const held = await readSuspendedParents(database, parentsBeside(rows))
  if (held.size === 0) return [...rows]
  const free = new Set(parentsFirst(rows, held))
  const child = rows.find(({ parent_id: parent }) => parent !== null && held.has(parent))
  if (free.size === 0 && child) throw heldByParent(child.id, child.parent_id!)
  return rows.filter((row) => free.has(row))
}

/** Throws AppError unless the caller confirmed the action and the number of agents. */
export function assertConfirmed(action: ContainmentAction, agents: number, confirm: string | undefined): void {
  if (agents === 0) {
    const state = action === 'suspend' ? 'is not suspended' : 'is suspended'
    throw new AppError('conflict', `The selector matches no agent that ${state}: there is nothing to ${action}.`)
  }
  const wanted = confirmText(action, agents)
  if (confirm === wanted || confirm === `${action} ${agents} agents`) return
  const fault = confirm === undefined ? 'confirm is required' : 'confirm does not match'
  const noun = agents === 1 ? 'agent' : 'agents'
  throw new AppError(
    'confirm_required',
    `${fault}: the selector matches ${agents} ${noun} now; to go on, send confirm "${wanted}".`,
  )
}

/** Facts about how an agent can be reached. */
export interface Ways {
  /** Whether it has an open control stream. */
  hasStream(instanceId: string): boolean
}

type Unreached = ContainmentPlan['unreached'][number]

/** Returns how an agent receives a change; `reason`: why it does not receive it at once. */
function wayTo(
  row: SelectedRow,
  { hasStream }: Ways,
  now: number,
): Omit<Unreached, 'id' | 'reason'> & Partial<Unreached> {
  if (hasStream(row.id)) return { path: 'stream' }
  if (now - row.last_heartbeat_at > offlineAfterMs) return { path: 'unknown', reason: 'offline' }
  // It follows the control version, and so polls; interface.md asks a client for neither.
  const follows = row.applied_version !== null || row.claimed_version !== null
  return follows ? { path: 'poll', reason: 'no_control_stream' } : { path: 'unknown', reason: 'old_sdk' }
}

const order = ['offline', 'old_sdk', 'no_control_stream'] as const

/** Returns which agents an action reaches, by which way, and which it does not reach at once. */
export function planOf(
  action: ContainmentAction,
  rows: readonly SelectedRow[],
  ways: Ways,
  now: number,
): Omit<ContainmentPlan, 'second_operator'> {
  const paths = { stream: 0, poll: 0, unknown: 0 }
  const late = { offline: [] as Unreached[], old_sdk: [] as Unreached[], no_control_stream: [] as Unreached[] }
  for (const row of rows) {
    const { path, reason } = wayTo(row, ways, now)
    paths[path] += 1
    if (reason) late[reason].push({ id: row.id, path, reason })
  }
  return {
    dry_run: true,
    action,
    agents: rows.length,
    confirm: confirmText(action, rows.length),
    instances: rows.slice(0, limits.listedMembers).map(({ id }) => id),
    paths,
    unreached: order.flatMap((reason) => late[reason]).slice(0, limits.listedMembers),
    unreached_counts: {
      offline: late.offline.length,
      no_control_stream: late.no_control_stream.length,
      old_sdk: late.old_sdk.length,
    },
  }
}
