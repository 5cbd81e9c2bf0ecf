import type { Db } from '../../db/database.ts'
import { findTraits } from './queries.ts'
import { readTags } from './tags.ts'

/** Properties that an instance may share with others. */
export interface Traits {
  agentType: string | null
  /** Of operators and keys: an agent must not choose what it is compared with. */
  tags: string[]
}

/** Traits by id; unknown instances are missing. */
export async function readTraits(db: Db, ids: readonly string[]): Promise<Map<string, Traits>> {
  if (ids.length === 0) return new Map()
  const rows = await findTraits(db, ids)
  return new Map(rows.map((row) => [row.id, { agentType: row.agent_type, tags: readTags(row.operator_tags) }]))
}
