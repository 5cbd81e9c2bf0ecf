import { type EventQuery, limits, type Severity, severities } from '@wardline/contract'
import { safeJson } from '@wardline/text'
import { type Command, Option } from 'commander'
import { type Cursor, cursorOption, type Kind, kinds } from '../export/cursor.ts'
import { exportEvents } from '../export/events-export.ts'
import { type ExportFormatName, exportFormatNames } from '../export/formats.ts'
import { instantOption } from '../instant.ts'
import { rowLimit } from '../row-pages.ts'
import { withService } from '../service/options.ts'
import { findService } from '../service/service.ts'
import type { ServiceFlags } from '../service/settings.ts'
import { eventPages } from './event-pages.ts'
import { controlLine, eventLine } from './event-text.ts'
import { controlSource, listCursor, listCursorOption, readListCursor } from './list-cursor.ts'
import { createSource, type Entry, eventEntries, takeNewest } from './timeline.ts'

interface Filters {
  severity?: Severity
  type?: string
  excludeType?: string[]
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
  include?: Kind[]
  since?: Cursor
}

function queryOf({ severity, type, excludeType, instance, session, grep, from, to }: Filters): EventQuery {
  return {
    severity,
    event_type: type,
    exclude_type: excludeType?.join(','),
    instance_id: instance,
    session_id: session,
    q: grep,
    from,
    to,
  }
}

/** Whether kills and resumes are listed. They have only a time and an instance, so other filters exclude them. */
const meansControl = ({ type, session, grep }: Filters): boolean =>
  type === undefined && session === undefined && grep === undefined

async function list(options: ListOptions): Promise<void> {
  const { limit, before, json } = options
  const { call } = await findService(options)
  const query = queryOf(options)
  const pageSize = Math.min(limit, limits.pageSize)
  const place = before === undefined ? undefined : readListCursor(before)
  const events = { ...query, ...(place ? { before: place.event } : {}) }
  const sources = [createSource(eventEntries(eventPages(call, events, pageSize)))]
  if (meansControl(options)) sources.push(await controlSource(call, query, place, pageSize))
  const entries: Entry[] = []
  while (entries.length < limit) {
    const entry = await takeNewest(sources)
    if (!entry) break
    entries.push(entry)
  }
  const next = sources.every((source) => source.isDone) ? null : listCursor(entries, place, meansControl(options))
  if (json) {
    const rows = entries.flatMap((entry) => (entry.kind === 'event' ? [entry.row] : []))
    const control = entries.flatMap((entry) => (entry.kind === 'control' ? [entry.row] : []))
    return console.log(safeJson({ events: rows, control, next }, 2))
  }
  for (const entry of entries) {
    if (entry.kind === 'event') console.log(eventLine(entry.row))
    else if (entry.kind === 'control') console.log(controlLine(entry.row))
  }
  if (next !== null) console.error(`-- for more, repeat with --before ${next}`)
}

function withFilters(command: Command): Command {
  return command
    .addOption(new Option('--severity <severity>', 'only this severity').choices(severities))
    .option('--type <type>', 'event type')
    .option('--exclude-type <type...>', 'exclude these event types; repeatable')
    .option('--instance <id>', 'instance id')
    .option('--session <id>', 'session id')
    .option('--grep <text>', 'text in source, type or description')
    .option('--from <instant>', 'at or after: an ISO 8601 instant, a day, or 90s, 15m, 2h, 7d ago', instantOption)
    .option('--to <instant>', 'before: in the same formats', instantOption)
}

export function addEvents(program: Command): void {
  const events = program.command('events').description('search and export stored events')
  const listing = withFilters(
    events
      .command('list', { isDefault: true })
      .description(
        'search events, newest first, with kills and resumes unless --type, --session or --grep is given; the default of `wardline events`',
      ),
  )
    .option('--limit <number>', 'maximum entries', rowLimit, 100)
    .option('--before <cursor>', 'continue where a previous search ended', listCursorOption)
  withService(listing).action(list)
  const exporting = withFilters(
    events
      .command('export')
      .description(
        'export matching events, kills and resumes, newest first, in a format for other programs; prints the cursor for the next export',
      ),
  )
    .addOption(new Option('--format <format>', 'format of a line').choices(exportFormatNames).makeOptionMandatory())
    .option('--output <file>', 'file, written completely or not at all; default: standard output')
    .addOption(
      new Option(
        '--include <kind...>',
        'what to export; audit needs an admin key. Default: event control, or event alone with --type, --session or --grep',
      ).choices(kinds),
    )
    .option('--since <cursor>', 'continue exactly where a previous export ended', cursorOption)
  withService(exporting).action(async ({ include, since, ...options }: ExportOptions) => {
    const wanted = include ?? (meansControl(options) ? ['event', 'control'] : ['event'])
    const inOrder = kinds.filter((kind) => wanted.includes(kind))
    await exportEvents({ ...options, query: queryOf(options), kinds: inOrder, since })
  })
}
