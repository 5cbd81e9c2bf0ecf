import { severities } from '@wardline/contract'
import { counted, safeJson, sanitize } from '@wardline/text'
import { type Command, Option } from 'commander'
import { Failure } from '../exit.ts'
import { instantOption } from '../instant.ts'
import { withService } from '../service/options.ts'
import { findService, type Service } from '../service/service.ts'
import type { ServiceFlags } from '../service/settings.ts'
import { onStopSignal } from '../signals.ts'
import { type EventFilter, isInstance, passes } from './event-filter.ts'
import { newestEvent } from './event-pages.ts'
import { controlLine, eventLine } from './event-text.ts'
import { beginning, type Place } from './stream-cursor.ts'
import { followEvents, type TailNotice } from './tail-follow.ts'

interface TailOptions extends ServiceFlags, EventFilter {
  since?: string
}

/** Returns the event after which to start; undefined if the key may not read events. */
async function startingPlace({ call, key }: Service, since: string | undefined): Promise<Place | undefined> {
  if (since !== undefined) return (await newestEvent(call, { to: since })) ?? beginning
  if (key === undefined) return undefined
  try {
    return (await newestEvent(call, {})) ?? beginning
  } catch (fault) {
    // A caller that may not list events may still read the stream, from its current end.
    if (fault instanceof Failure && fault.exit === 'unauthorized') return undefined
    throw fault
  }
}

/** Returns the kill or resume after which to start; undefined if the key may not read them. */
async function startingChange({ call, key }: Service, since: string | undefined): Promise<number | undefined> {
  if (key === undefined) return undefined
  try {
    const bounds = since === undefined ? {} : { to: since }
    const { changes } = await call('listControlChanges', { query: { ...bounds, limit: '1' } })
    return changes[0]?.seq ?? 0
  } catch (fault) {
    if (fault instanceof Failure && fault.exit === 'unauthorized') return undefined
    throw fault
  }
}

function noticeText(notice: TailNotice): string {
  switch (notice.notice) {
    case 'connected':
      return `connected to ${notice.url}`
    case 'disconnected':
      return `disconnected (${notice.reason}), reconnecting`
    case 'skipped':
      return notice.reason === 'replay_limit'
        ? `${counted(notice.events, 'event')} skipped, because the stream resends at most 10,000: wardline events list --before ${notice.resumes_after + 1} shows them`
        : `${counted(notice.events, 'event')} no longer available: retention has removed them`
    case 'unknown_gap':
      return 'events since the disconnect may be missing: no event had arrived to resume from'
    case 'control_hidden':
      return 'kills and resumes are not shown: they need a key of scope viewer or above'
    case 'numbering_began_anew':
      return 'the sequence of events restarted, so the service has another database: events in between are unknown'
  }
}

function showNotice(notice: TailNotice, asJson: boolean): void {
  process.stderr.write(asJson ? `${safeJson(notice)}\n` : `-- ${sanitize(noticeText(notice))}\n`)
}

async function tail(options: TailOptions): Promise<void> {
  const { since, json = false } = options
  const service = await findService(options)
  const end = new AbortController()
  onStopSignal(() => end.abort())
  const place = await startingPlace(service, since)
  // A filter for particular events excludes kills and resumes.
  const meansControl = options.type === undefined && options.grep === undefined
  const controlSeq = meansControl ? await startingChange(service, since) : undefined
  if (meansControl && controlSeq === undefined) showNotice({ notice: 'control_hidden' }, json)
  const print = (line: string) => process.stdout.write(`${line}\n`)
  for await (const item of followEvents({ service, place, controlSeq, signal: end.signal })) {
    if ('notice' in item) showNotice(item, json)
    else if ('change' in item) {
      const { change } = item
      if (isInstance(options.instance, change.instance_id)) print(json ? safeJson(change) : controlLine(change))
    } else if (passes(options, item.row)) print(json ? safeJson(item.row) : eventLine(item.row))
  }
}

export function addTail(program: Command): void {
  const command = program
    .command('tail')
    .description(
      'show events, kills and resumes live; a lost connection resumes where it broke. --type and --grep show events only',
    )
    .addOption(new Option('--severity <severity...>', 'only these values').choices(severities))
    .option('--type <type...>', 'only these event types; repeatable')
    .option('--exclude-type <type...>', 'exclude these event types; repeatable')
    .option('--instance <id...>', 'only these instances; an id, or a prefix ending in *')
    .option('--grep <text>', 'text in source, type or description')
    .option(
      '--since <instant>',
      'start with stored events since: an ISO 8601 instant, or 90s, 15m, 2h, 7d ago',
      instantOption,
    )
  withService(command).action(tail)
}
