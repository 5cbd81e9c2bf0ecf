import { type FleetStatus, knownTools, type SeverityCounts } from '@wardline/contract'
import { hourMs } from '../../clock.ts'
import type { Db } from '../../db/database.ts'
import { countSince, countToolsSince } from './count-queries.ts'

/** Counts events by severity over the last 24 hours. */
export async function severityCounts(db: Db, now: number): Promise<SeverityCounts> {
  const counts: SeverityCounts = { critical: 0, warning: 0, info: 0, breach: 0 }
  for (const { severity, count } of await countSince(db, now - 24 * hourMs)) counts[severity] += count
  return counts
}

/** Counts calls of the known tools over the last hour, including tools without calls. */
export async function toolCounts(db: Db, now: number): Promise<FleetStatus['toolCalls']> {
  const counts = await countToolsSince(db, now - hourMs)
  const named = knownTools.map((tool) => [tool, counts.get(tool) ?? 0])
  return Object.fromEntries(named) as FleetStatus['toolCalls']
}
