import type { InstanceTags } from '@wardline/contract'
import type { Database } from '../../db/database.ts'
import { changeGuarded } from '../../db/guarded-change.ts'
import { AppError, unknownInstance } from '../../errors.ts'
import type { Principal } from '../../http/auth.ts'
import { type Actor, auditStatements } from '../audit/audit.ts'
import { findInstance, type TagColumns, tagStatements } from './queries.ts'

const sorted = (tags: Iterable<string>): string[] => [...new Set(tags)].sort()

/** Serializes tags for storage: distinct and sorted, so that equal sets have equal texts. */
export const tagsText = (tags: readonly string[]): string => JSON.stringify(sorted(tags))

export const readTags = (text: string | null): string[] => JSON.parse(text ?? '[]')

/** Returns the tags set by the agent and by operators. */
export const allTags = ({ agent_tags, operator_tags }: TagColumns): string[] =>
  sorted([...readTags(agent_tags), ...readTags(operator_tags)])

/** Replaces the operators' tags; resolves with all tags of the instance. Throws AppError `not_found` or `forbidden`. */
export function setTags(
  database: Database,
  id: string,
  { tags }: InstanceTags,
  { principal, actor }: { principal: Pick<Principal, 'approves'>; actor: Actor },
  now: number,
): Promise<string[]> {
  return changeGuarded(database, async () => {
    const row = await findInstance(database.db, id)
    if (!row) throw unknownInstance(id)
    const before = readTags(row.operator_tags)
    // Otherwise a key could tag an agent to decide its approvals.
    const own = principal.approves?.find((tag) => tags.includes(tag) && !before.includes(tag))
    if (own) throw new AppError('forbidden', `This key approves for ${own}: another operator has to set this tag.`)
    const operator_tags = tagsText(tags)
    const action = {
      action: 'instance.tags',
      target: id,
      before: { tags: before },
      after: { tags: readTags(operator_tags) },
    }
    return {
      statements: [
        ...tagStatements(database, id, row.operator_tags, operator_tags, now),
        ...auditStatements(database, actor, action, now),
      ],
      result: () => allTags({ agent_tags: row.agent_tags, operator_tags }),
    }
  })
}
