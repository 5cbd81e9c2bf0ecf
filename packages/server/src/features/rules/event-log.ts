import type { Database, Db } from '../../db/database.ts'
import type { EventFields } from '../../db/schema/events.ts'
import { eventRow } from '../events/event-row.ts'
import { readEventsBetween } from '../events/log-statements.ts'
import { readOperatorTagsOf } from '../instances/tag-statements.ts'
import type { RuleEvent } from './language/fields.ts'

const noTags: readonly string[] = []

/**
 * Converts events to the form of the rule language. Tags, which are read if the rules use them, are those that operators
 * and keys give the instances now.
 */
export async function ruleEventsOf(db: Db, events: readonly EventFields[], withTags: boolean): Promise<RuleEvent[]> {
  const ids = withTags ? [...new Set(events.flatMap(({ instance_id }) => instance_id ?? []))] : []
  const tags = await readOperatorTagsOf(db, ids)
  return events.map((event) => ({
    row: eventRow(event),
    tags: (event.instance_id === null ? undefined : tags.get(event.instance_id)) ?? noTags,
  }))
}

/**
 * Rows per page: at most 4 MiB with 16 KiB of metadata each. Of a thousand such rows, the garbage collection alone holds the
 * event loop for 50 ms; with this many it takes below 20.
 */
const pageRows = 250

interface LogRange {
  /** Only events after this seq. */
  after: number
  /** Only events up to this seq. */
  upTo: number
  /** Whether the rules use tags; default: true. */
  withTags?: boolean
}

/**
 * Reads the next page of the log in order of seq, in the form of the rule language, on the connections of scans. Empty at
 * the end of the log.
 */
export async function readRuleEvents(
  database: Pick<Database, 'scan'>,
  caller: string,
  { after, upTo, withTags = true }: LogRange,
): Promise<RuleEvent[]> {
  if (after >= upTo) return []
  return database.scan(caller, async (db) => {
    const events = await readEventsBetween(db, { after, upTo, limit: pageRows })
    return ruleEventsOf(db, events, withTags)
  })
}
