import { setTimeout as pause } from 'node:timers/promises'
import type { Client, EventList, EventQuery } from '@wardline/contract'
import { counted, safeJson } from '@wardline/text'
import { eventPages, newestEvent } from '../events/event-pages.ts'
import {
  auditEntries,
  controlEntries,
  createSource,
  eventEntries,
  type Source,
  takeNewest,
} from '../events/timeline.ts'
import { Failure } from '../exit.ts'
import { startBar } from '../progress-bar.ts'
import { findService } from '../service/service.ts'
import type { ServiceFlags } from '../service/settings.ts'
import { onStopSignal } from '../signals.ts'
import { version } from '../version.ts'
import { between, type Cursor, findEnd, formatCursor, type Kind } from './cursor.ts'
import { type ExportFormatName, exportFormat } from './formats.ts'
import { openExportTarget } from './target.ts'

interface ExportRequest extends ServiceFlags {
  format: ExportFormatName
  output?: string
  query: EventQuery
  /** Kinds to export, events first. */
  kinds: readonly Kind[]
  since: Cursor | undefined
}

/** Attempts per request, so that a long export survives a restart of the service. */
const maxAttempts = 6
const firstPauseMs = 500

/** Returns a client that retries failed requests, but only after the service has answered once. */
function patient(call: Client, signal: AbortSignal): Client {
  let wasThere = false
  return async (name, input) => {
    for (let attempt = 1; ; attempt++) {
      signal.throwIfAborted()
      try {
        const reply = await call(name, input)
        wasThere = true
        return reply
      } catch (fault) {
        const mayPass = fault instanceof Failure && (fault.exit === 'failed' || fault.exit === 'unreachable')
        if (!mayPass || !wasThere || attempt === maxAttempts) throw fault
        await pause(firstPauseMs * 2 ** (attempt - 1), undefined, { signal })
      }
    }
  }
}

interface Progress {
  show(page: EventList): void
  stop(): void
}

/** Shows progress by the seq of events, because the number of matching events is unknown until the end. */
async function startProgress(call: Client, { from, after }: EventQuery): Promise<Progress> {
  const since = from === undefined ? 0 : ((await newestEvent(call, { to: from }))?.seq ?? 0)
  const floor = Math.max(since, Number(after ?? 0))
  const bar = startBar(process.stderr)
  let top: number | undefined
  let reached: number | undefined
  let count = 0
  return {
    show({ events, next }) {
      count += events.length
      top ??= events[0]?.seq
      if (top === undefined) return
      const down = next === null ? floor : Math.max(floor, Number(next))
      const more = Math.max(0, (reached ?? top) - down)
      reached = Math.min(reached ?? top, down)
      bar.advance(more, Math.max(1, top - floor), process.stderr.isTTY ? counted(count, 'event') : 'Exporting events')
    },
    stop: () => bar.stop(),
  }
}

/** Throws Failure if the cursor has no position for one of the kinds. */
function assertPlaces(kinds: readonly Kind[], since: Cursor | undefined): void {
  const missing = kinds.find((kind) => since !== undefined && since[kind] === undefined)
  if (missing === undefined) return
  throw new Failure(
    `The cursor does not cover ${missing} entries, which the previous export left out: export them once without --since.`,
    'incomplete_cursor',
    'usage',
  )
}

/** Characters per write. Writing each line separately would cost more than formatting it. */
const chunkLength = 64 * 1024

const countText = (counts: Record<Kind, number>, kinds: readonly Kind[]): string => {
  const names: Record<Kind, [one: string, more: string]> = {
    event: ['event', 'events'],
    control: ['control entry', 'control entries'],
    audit: ['audit entry', 'audit entries'],
  }
  return kinds.map((kind) => `${counts[kind]} ${names[kind][counts[kind] === 1 ? 0 : 1]}`).join(', ')
}

/**
 * Writes all matching entries up to now, newest first, and prints the cursor for the next export. Pages are streamed,
 * so a year needs no more memory than a day.
 */
export async function exportEvents({ format, output, query, kinds, since, ...flags }: ExportRequest): Promise<void> {
  assertPlaces(kinds, since)
  const service = await findService(flags)
  const stopped = new AbortController()
  onStopSignal(() =>
    stopped.abort(new Failure('The export was stopped; its output is incomplete.', 'stopped', 'failed')),
  )
  const call = patient(service.call, stopped.signal)
  const { head, line } = exportFormat(
    format,
    kinds.some((kind) => kind !== 'event'),
  )
  const end = await findEnd(call, kinds, since)
  const cursor = formatCursor(end)
  const bounds = (kind: Kind) => between(since?.[kind], end[kind]!)
  const eventQuery = { ...query, ...bounds('event') }
  const progress = await startProgress(call, eventQuery)
  async function* events(): AsyncGenerator<EventList> {
    for await (const page of eventPages(call, eventQuery)) {
      progress.show(page)
      yield page
    }
  }
  const { instance_id, from, to } = query
  const open: Record<Kind, () => Source> = {
    event: () => createSource(eventEntries(events())),
    control: () => createSource(controlEntries(call, { from, to, instance_id, ...bounds('control') })),
    audit: () => createSource(auditEntries(call, { from, to, target: instance_id, ...bounds('audit') })),
  }
  const sources = kinds.map((kind) => open[kind]())
  const target = await openExportTarget(output)
  const counts: Record<Kind, number> = { event: 0, control: 0, audit: 0 }
  try {
    let text = head
    for (let entry = await takeNewest(sources); entry; entry = await takeNewest(sources)) {
      stopped.signal.throwIfAborted()
      counts[entry.kind]++
      text += line(entry, version)
      if (text.length < chunkLength) continue
      await target.write(text)
      text = ''
    }
    await target.write(text)
    await target.finish()
  } catch (fault) {
    await target.abandon()
    throw stopped.signal.aborted ? stopped.signal.reason : fault
  } finally {
    progress.stop()
  }
  if (flags.json) {
    const result = { ok: true, format, events: counts.event, control: counts.control, audit: counts.audit }
    const print = output === undefined ? console.error : console.log
    return print(safeJson({ ...result, output: output ?? null, cursor }))
  }
  console.error(`${countText(counts, kinds)} as ${format}${output === undefined ? '' : ` in ${output}`}`)
  console.error(`-- for later entries, repeat with --since ${cursor}`)
}
