import { hash } from 'node:crypto'
import { type ResumeRequest, secondOperatorMinutes } from '@wardline/contract'
import { isoTime, minuteMs } from '../../clock.ts'
import type { Database, Db, Statement } from '../../db/database.ts'
import { readTeamText, type Team, teamText } from '../../db/teams.ts'
import type { Deps } from '../../deps.ts'
import { AppError, DatabaseError, unknownId } from '../../errors.ts'
import type { Principal } from '../../http/auth.ts'
import { type Actor, auditStatements } from '../audit/audit.ts'
import { readFleet, type SelectedRow } from '../instances/fleet-statements.ts'
import { keyNames } from '../keys/key-names.ts'
import {
  findRequest,
  type PendingRow,
  type ResumeRequestRow,
  readMembers,
  readRequests,
  requestStatements,
  takeStatements,
} from './resume-request-queries.ts'

const lastsMs = secondOperatorMinutes * minuteMs
/** Requests listed in a response: more than people make in 15 minutes. */
const maxListed = 100
/** Retries: if two operators request the same at the same time, the later one confirms. */
const maxAttempts = 3

/** The agents to resume. */
type Target = Pick<ResumeRequestRow, 'target' | 'instance_id' | 'selector' | 'members' | 'version' | 'agents'>

/** Binds a request to these suspensions: it is void after a resume and a new kill. */
export const instanceTarget = (id: string, version: number): Target => ({
  target: `instance ${id}`,
  instance_id: id,
  selector: null,
  members: null,
  version,
  agents: 1,
})

const fleetPrefix = 'fleet '

/** Returns 48 bits of a digest that identify this set of agents with their suspensions. */
const stateOf = (rows: readonly SelectedRow[]): number =>
  Number.parseInt(
    hash('sha256', JSON.stringify(rows.map((row) => [row.id, row.control_version])), 'hex').slice(0, 12),
    16,
  )

/**
 * A request is its set of agents, as they are when the first operator asks, whichever selector finds them: `rows`, in the
 * order of ids.
 */
export function fleetTarget(shown: string, rows: readonly SelectedRow[]): Target {
  const [first] = rows
  if (first && rows.length === 1) return instanceTarget(first.id, first.control_version)
  const members = JSON.stringify(rows.map(({ id }) => id))
  return {
    target: `${fleetPrefix}${hash('sha256', members, 'hex')}`,
    instance_id: null,
    selector: shown,
    members,
    version: stateOf(rows),
    agents: rows.length,
  }
}

interface Asking {
  principal: Principal
  actor: Actor
  reason?: string
}

const auditTarget = ({ instance_id, target }: Target) => instance_id ?? target

function request(deps: Deps, row: ResumeRequestRow, replaced: number | null, actor: Actor, reason?: string) {
  const { requested_at: now, agents, expires_at } = row
  const action = {
    action: 'resume.request',
    target: auditTarget(row),
    before: null,
    after: { agents, expires_at },
    ...(reason === undefined ? {} : { reason }),
  }
  return deps.database.batch(
    [...requestStatements(deps.database, row, replaced), ...auditStatements(deps.database, actor, action, now)],
    { isControl: true },
  )
}

const refusal = (sentence: string) => new AppError('second_operator_required', sentence)

/** The request of another operator. */
interface Confirmation {
  /** Consume the request, in the batch that resumes. */
  statements: Statement[]
  requestedBy: string
}

/**
 * Returns the confirmed request of another operator. Without one, stores a new request and throws AppError
 * `second_operator_required` with its expiry, as for a repetition by the same operator.
 */
export async function confirmBySecond(
  deps: Deps,
  target: Target,
  { principal, actor, reason }: Asking,
): Promise<Confirmation> {
  const { database, clock } = deps
  const { keyId, team, registers } = principal
  const { owner } = registers
  for (let attempt = 1; ; attempt++) {
    const now = clock.now()
    const found = await findRequest(database.db, target.target, now)
    const valid = found?.version === target.version ? found : undefined
    if (valid && valid.owner !== owner) {
      const { requested_by, requested_at } = valid
      const before = { requested_by, requested_at }
      const action = { action: 'resume.confirm', target: auditTarget(target), before, after: null }
      const statements = [...takeStatements(database, valid), ...auditStatements(database, actor, action, now)]
      return { statements, requestedBy: requested_by }
    }
    if (valid) {
      throw refusal(
        `This key requested the resume: an operator with another key must confirm it by sending the same request before ${isoTime(valid.expires_at)}.`,
      )
    }
    const asked = { requested_by: keyId, owner, team: teamText(team), requested_at: now, expires_at: now + lastsMs }
    const row = { ...target, ...asked }
    try {
      await request(deps, row, found?.requested_at ?? null, actor, reason)
    } catch (fault) {
      if (fault instanceof DatabaseError && fault.constraint && attempt < maxAttempts) continue
      throw fault
    }
    throw refusal(
      `A second operator must confirm this resume by sending the same request with another operator key before ${isoTime(row.expires_at)}.`,
    )
  }
}

/** Ids looked up at a time. */
const lookedUp = 500

/** Whether one of the agents is still suspended: otherwise there is nothing left to confirm. */
async function isOpen(database: Pick<Database, 'db' | 'dialect'>, row: PendingRow): Promise<boolean> {
  const { instance_id, target, version } = row
  if (instance_id !== null) {
    const [agent] = await readFleet(database, [instance_id])
    return agent?.suspended === 1 && agent.control_version === version
  }
  const members = await readMembers(database.db, target)
  for (let from = 0; from < members.length; from += lookedUp) {
    const agents = await readFleet(database, members.slice(from, from + lookedUp))
    if (agents.some(({ suspended }) => suspended === 1)) return true
  }
  return false
}

/** Lists requests that wait for a second operator, newest first. */
export async function listRequests(
  database: Pick<Database, 'db' | 'dialect'>,
  { registers, team }: Principal,
  now: number,
): Promise<ResumeRequest[]> {
  const { db } = database
  const waiting = await readRequests(db, now, maxListed, team)
  const rows: PendingRow[] = []
  // One after the other: the ids of a large fleet are megabytes.
  for (const row of waiting) if (await isOpen(database, row)) rows.push(row)
  const names = await keyNames.names(
    db,
    rows.map(({ requested_by }) => requested_by),
  )
  return rows.map((row) => ({
    id: row.instance_id === null ? row.target.slice(fleetPrefix.length) : null,
    instance_id: row.instance_id,
    selector: row.selector === null ? null : JSON.parse(row.selector),
    tags_scope: readTeamText(row.team),
    agents: row.agents,
    by: row.requested_by,
    by_name: names.get(row.requested_by) ?? null,
    own: row.owner === registers.owner,
    requested_at: isoTime(row.requested_at),
    expires_at: isoTime(row.expires_at),
  }))
}

/** Returns a page of the instances of a request. Throws AppError `not_found`. */
export async function listMembers(
  db: Db,
  id: string,
  { after = '', limit, team }: { after: string | undefined; limit: number; team: Team },
  now: number,
): Promise<{ instances: string[]; next: string | null }> {
  const found = await findRequest(db, `${fleetPrefix}${id}`, now, team)
  if (!found) throw unknownId('request to resume', id, 'wardline containments')
  const members = await readMembers(db, found.target)
  const rest = members.filter((member) => member > after)
  const instances = rest.slice(0, limit)
  return { instances, next: rest.length > limit ? instances.at(-1)! : null }
}
