import { observedAgentType } from '@wardline/contract'
import type { Db } from '../../db/database.ts'
import { allTags } from './tags.ts'

/** What an instance says about the ways in which a suspension reaches it. Times are epoch milliseconds. */
export interface Reach {
  /** Of the agent and of operators: a point may be chosen by both. */
  tags: string[]
  supervisedAt: number | null
  modelCalledAt: number | null
  provenAt: number | null
  supervisorProvenAt: number | null
  modelProvenAt: number | null
  /** Whether only its telemetry is heard: it asks for nothing. */
  isObserved: boolean
}

export async function readReach(db: Db, id: string): Promise<Reach | undefined> {
  const row = await db
    .selectFrom('instances')
    .select([
      'agent_tags',
      'operator_tags',
      'supervised_at',
      'model_called_at',
      'last_proven_at',
      'supervisor_proven_at',
      'model_proven_at',
      'agent_type',
    ])
    .where('id', '=', id)
    .executeTakeFirst()
  return (
    row && {
      tags: allTags(row),
      supervisedAt: row.supervised_at,
      modelCalledAt: row.model_called_at,
      provenAt: row.last_proven_at,
      supervisorProvenAt: row.supervisor_proven_at,
      modelProvenAt: row.model_proven_at,
      isObserved: row.agent_type === observedAgentType,
    }
  )
}

/** Records that an agent calls a model through the gateway. */
export async function noteModelCall(db: Db, id: string, now: number): Promise<void> {
  await db.updateTable('instances').set({ model_called_at: now }).where('id', '=', id).execute()
}
