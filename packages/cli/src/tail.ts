import { severities } from '@wardline/contract'
import { type Command, Option } from 'commander'
import { type EventFilter, passes } from './event-filter.ts'
import { newestBefore } from './event-pages.ts'
import { eventLine } from './event-text.ts'
import { Failure } from './exit.ts'
import { instantOption } from './instant.ts'
import { findService, type Service } from './service.ts'
import { withService } from './service-options.ts'
import type { ServiceFlags } from './service-settings.ts'
import { onStopSignal } from './signals.ts'
import { beginning, type Place } from './stream-cursor.ts'
import { followEvents, type TailNotice } from './tail-follow.ts'
import { plainJson, plainText } from './terminal-text.ts'

interface TailOptions extends ServiceFlags, EventFilter {
  since?: string
}

/** After which event the stream is taken up; undefined when that cannot be found out. */
async function startingPlace({ call, key }: Service, since: string | undefined): Promise<Place | undefined> {
  if (since !== undefined) return (await newestBefore(call, since)) ?? beginning
  if (key === undefined) return undefined
  try {
    return (await newestBefore(call, undefined)) ?? beginning
  } catch (fault) {
    // The stream may be open to whoever may not read the list: it is followed from wherever it is.
    if (fault instanceof Failure && fault.exit === 'unauthorized') return undefined
    throw fault
  }
}

export function noticeText(notice: TailNotice): string {
  switch (notice.notice) {
    case 'connected':
      return `connected to ${notice.url}`
    case 'disconnected':
      return `disconnected (${notice.reason}), trying again until it is back`
    case 'skipped':
      return notice.reason === 'replay_limit'
        ? `${notice.events} events were skipped, the stream repeats 10,000 at most: wardline events list --before ${notice.resumes_after + 1} shows them`
        : `${notice.events} events are missing, the service has removed them`
    case 'unknown_gap':
      return 'events of the time in between are missing, if there were any: none had come from which to go on'
    case 'numbering_began_anew':
      return 'the service counts its events anew, so another database is behind it: what came in between is unknown'
  }
}

function showNotice(notice: TailNotice, asJson: boolean): void {
  process.stderr.write(asJson ? `${plainJson(notice)}\n` : `-- ${plainText(noticeText(notice))}\n`)
}

async function tail(options: TailOptions): Promise<void> {
  const { since, json = false } = options
  const service = await findService(options)
  const end = new AbortController()
  onStopSignal(() => end.abort())
  const place = await startingPlace(service, since)
  for await (const item of followEvents({ service, place, signal: end.signal })) {
    if ('notice' in item) showNotice(item, json)
    else if (passes(options, item.row)) {
      process.stdout.write(`${json ? plainJson(item.row) : eventLine(item.row)}\n`)
    }
  }
}

export function addTail(program: Command): void {
  const command = program
    .command('tail')
    .description('show events as they come; a lost connection is taken up where it broke')
    .addOption(new Option('--severity <severity...>', 'only these').choices(severities))
    .option('--type <type...>', 'only these event types')
    .option('--instance <id...>', 'only these instances; an id, or a prefix ending in *')
    .option('--grep <text>', 'text in source, type or description')
    .option(
      '--since <instant>',
      'begin with the events since then: an ISO 8601 instant, or 90s, 15m, 2h, 7d ago',
      instantOption,
    )
  withService(command).action(tail)
}
