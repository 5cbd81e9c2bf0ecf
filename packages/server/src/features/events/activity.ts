import { eventTypes } from '@wardline/contract'
import type { Db } from '../../db/database.ts'
import { readEvents } from './queries.ts'

/** Whether the instance reported a tool call at or after the instant. */
export async function calledToolSince(db: Db, instanceId: string, since: number): Promise<boolean> {
  const filter = { instance_id: instanceId, event_type: eventTypes.toolCall }
  let before = Number.MAX_SAFE_INTEGER
  for (;;) {
    const bounds = { after: 0, before, from: since, to: Number.MAX_SAFE_INTEGER, limit: 1 }
    const page = await readEvents(db, filter, bounds)
    if (page.rows.length > 0) return true
    if (page.lookedDownTo === undefined) return false
    before = page.lookedDownTo
  }
}
