import type { EventRow } from '@wardline/contract'
import { isoTime } from '../../clock.ts'
import type { Database } from '../../db/database.ts'
import type { EventFields } from '../../db/schema/events.ts'
import { readEventsBetween } from '../events/log-statements.ts'
import { readTagsOf } from '../instances/tag-statements.ts'
import type { RuleEvent } from './language/fields.ts'

/** A stored event as rules see it. Most rules look at few fields: metadata is parsed and time written when it is asked for. */
class LoggedEvent implements EventRow {
  readonly #event: EventFields
  #metadata: EventRow['metadata'] | undefined
  #createdAt: string | undefined

  constructor(event: EventFields) {
    this.#event = event
  }

  get id() {
    return this.#event.id
  }
  get seq() {
    return this.#event.seq
  }
  get severity() {
    return this.#event.severity
  }
  get source() {
    return this.#event.source
  }
  get by_service() {
    return this.#event.by_service === 1
  }
  get event_type() {
    return this.#event.event_type
  }
  get description() {
    return this.#event.description
  }
  get instance_id() {
    return this.#event.instance_id
  }
  get session_id() {
    return this.#event.session_id
  }
  get ip_address() {
    return this.#event.ip_address
  }
  get created_at() {
    this.#createdAt ??= isoTime(this.#event.created_at)
    return this.#createdAt
  }
  get metadata() {
    if (this.#metadata === undefined) {
      this.#metadata = this.#event.metadata === null ? null : (JSON.parse(this.#event.metadata) as EventRow['metadata'])
    }
    return this.#metadata
  }
}

const noTags: readonly string[] = []

/** An event as the language takes it; `tags` are those of its instance. */
export const ruleEventOf = (event: EventFields, tags: readonly string[] = noTags): RuleEvent => ({
  row: new LoggedEvent(event),
  tags,
})

/** Rows of a page: with 16 KiB of metadata each they are 16 MiB, and reading them holds no turn of the event loop. */
const pageRows = 1_000

interface LogRange {
  /** Events after this seq. */
  after: number
  /** Up to this one. */
  upTo: number
  /** Whether the rules look at tags; default: true. */
  withTags?: boolean
}

/**
 * The next page of the log in order of seq, as the language takes it, read on the connections of scans. Empty when there is
 * none. Tags are those that the instances have when it is read.
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
    const tags = await readTagsOf(db, ids)
    return events.map((event) =>
      ruleEventOf(event, event.instance_id === null ? noTags : (tags.get(event.instance_id) ?? noTags)),
    )
  })
}
