import { type EventQuery, type EventRow, limits, type Severity, severities } from '@wardline/contract'
import { type Command, Option } from 'commander'
import { eventPages } from './event-pages.ts'
import { eventLine } from './event-text.ts'
import { exportEvents } from './events-export.ts'
import { type ExportFormatName, exportFormatNames } from './export-formats.ts'
import { instantOption } from './instant.ts'
import { rowLimit } from './row-pages.ts'
import { findService } from './service.ts'
import { withService } from './service-options.ts'
import type { ServiceFlags } from './service-settings.ts'
import { plainJson } from './terminal-text.ts'

interface Filters {
  severity?: Severity
  type?: string
  instance?: string
  session?: string
  grep?: string
  from?: string
  to?: string
}

interface ListOptions extends ServiceFlags, Filters {
  limit: number
  before?: string
}

interface ExportOptions extends ServiceFlags, Filters {
  format: ExportFormatName
  output?: string
}

function queryOf({ severity, type, instance, session, grep, from, to }: Filters): EventQuery {
  return {
    ...(severity === undefined ? {} : { severity }),
    ...(type === undefined ? {} : { event_type: type }),
    ...(instance === undefined ? {} : { instance_id: instance }),
    ...(session === undefined ? {} : { session_id: session }),
    ...(grep === undefined ? {} : { q: grep }),
    ...(from === undefined ? {} : { from }),
    ...(to === undefined ? {} : { to }),
  }
}

/** Pages until there are enough rows: one page may be short while more follow. */
async function list(options: ListOptions): Promise<void> {
  const { limit, before, json } = options
  const { call } = await findService(options)
  const query = { ...queryOf(options), ...(before === undefined ? {} : { before }) }
  const events: EventRow[] = []
  let next: string | null = null
  for await (const page of eventPages(call, query, Math.min(limit, limits.pageSize))) {
    const missing = limit - events.length
    events.push(...page.events.slice(0, missing))
    // What was cut off of a page begins below the last row that is shown.
    next = page.events.length > missing ? String(events.at(-1)?.seq ?? '') : page.next
    if (events.length >= limit) break
  }
  if (json) return console.log(plainJson({ events, next }, 2))
  for (const row of events) console.log(eventLine(row))
  if (next !== null) console.error(`-- more: the same with --before ${next}`)
}

function withFilters(command: Command): Command {
  return command
    .addOption(new Option('--severity <severity>', 'only this one').choices(severities))
    .option('--type <type>', 'event type')
    .option('--instance <id>', 'instance id')
    .option('--session <id>', 'session id')
    .option('--grep <text>', 'text in source, type or description')
    .option('--from <instant>', 'at or after: an ISO 8601 instant, a day, or 90s, 15m, 2h, 7d ago', instantOption)
    .option('--to <instant>', 'before; in the same forms', instantOption)
}

export function addEvents(program: Command): void {
  const events = program.command('events').description('stored events: search them, or export them')
  const listing = withFilters(
    events
      .command('list', { isDefault: true })
      .description('search, newest first; `wardline events` alone does the same'),
  )
    .option('--limit <number>', 'most events to show', rowLimit, 100)
    .option('--before <cursor>', 'go on where a search before this one ended')
  withService(listing).action(list)
  const exporting = withFilters(
    events
      .command('export')
      .description('write every matching event, newest first, in a form that other programs read'),
  )
    .addOption(new Option('--format <format>', 'form of a line').choices(exportFormatNames).makeOptionMandatory())
    .option('--output <file>', 'file that is written whole or not at all; standard output unless told')
  withService(exporting).action(async (options: ExportOptions) => {
    await exportEvents({ ...options, query: queryOf(options) })
  })
}
