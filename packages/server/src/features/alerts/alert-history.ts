import { type AlertDetail, alertStatuses, alertVerdicts, limits } from '@wardline/contract'
import type { Db } from '../../db/database.ts'
import { localNames } from '../audit/audit.ts'
import { listAudit } from '../audit/audit-list.ts'
import { keyNames } from '../keys/key-names.ts'

type Change = AlertDetail['history'][number]

const textOf = (value: unknown): string | null => (typeof value === 'string' ? value : null)

/** Tolerates edited rows of the audit log: `wardline audit verify` reports those, and the list must not fail. */
function stateOf(value: unknown): Change['after'] {
  const { status, verdict, assignee } = Object(value) as Record<string, unknown>
  return {
    status: alertStatuses.find((known) => known === status) ?? null,
    verdict: alertVerdicts.find((known) => known === verdict) ?? null,
    assignee: textOf(assignee),
  }
}

function countOf(value: unknown): number {
  const { alerts } = Object(value) as { alerts?: unknown }
  return Number.isSafeInteger(alerts) ? Math.max(1, alerts as number) : 1
}

/** Reads from the audit log who acknowledged, assigned or resolved an alert, newest first. */
export async function readHistory(db: Db, id: string): Promise<Change[]> {
  const entries = await listAudit(db, keyNames, { target: id, action: 'alert.change' }, 'newest', limits.alertHistory)
  const locals: Record<string, string> = localNames
  const changes = entries.map(({ at, actor, actor_name, before, after }) => ({
    at,
    by: actor_name ?? locals[actor] ?? actor,
    before: stateOf(before),
    after: stateOf(after),
    alerts: countOf(after),
  }))
  const assignees = changes.flatMap(({ before, after }) =>
    [before.assignee, after.assignee].flatMap((one) => one ?? []),
  )
  const names = assignees.length === 0 ? new Map<string, string>() : await keyNames.names(db, assignees)
  const named = ({ assignee, ...state }: Change['after']) => ({
    ...state,
    assignee: assignee === null ? null : (names.get(assignee) ?? assignee),
  })
  return changes.map(({ before, after, ...change }) => ({ ...change, before: named(before), after: named(after) }))
}
