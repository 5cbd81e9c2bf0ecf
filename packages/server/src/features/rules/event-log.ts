import type { Database } from '../../db/database.ts'
import type { EventFields } from '../../db/schema/events.ts'
import { eventRow } from '../events/event-row.ts'
import { readEventsBetween } from '../events/log-statements.ts'
import { readOperatorTagsOf } from '../instances/tag-statements.ts'
import type { RuleEvent } from './language/fields.ts'

const noTags: readonly string[] = []

/** Converts an event to the form of the rule language; `tags` are those that operators and keys gave its instance. */
export const ruleEventOf = (event: EventFields, tags: readonly string[] = noTags): RuleEvent => ({
  row: eventRow(event),
  tags,
})

/** Rows per page: at most 16 MiB with 16 KiB of metadata each, read without blocking the event loop. */
const pageRows = 1_000

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
 * the end of the log. Tags are those that operators and keys give the instances now.
 */
export async function readRuleEvents(
  database: Pick<Database, 'scan'>,
  caller: string,
  { after, upTo, withTags = true }: LogRange,
): Promise<RuleEvent[]> {
  if (after >= upTo) return []
  return database.scan(caller, async (db) => {
    const events = await readEventsBetween(db, { after, upTo, limit: pageRows })
    const ids = withTags ? [...new Set(events.flatMap(({ instance_id }) => instance_id ?? []))] : []
    const tags = await readOperatorTagsOf(db, ids)
    return events.map((event) =>
      ruleEventOf(event, event.instance_id === null ? noTags : (tags.get(event.instance_id) ?? noTags)),
    )
  })
}
