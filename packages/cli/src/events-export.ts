import { setTimeout as pause } from 'node:timers/promises'
import type { Client, EventList, EventQuery } from '@wardline/contract'
import { eventPages, newestBefore } from './event-pages.ts'
import { Failure } from './exit.ts'
import { type ExportFormat, type ExportFormatName, exportFormats } from './export-formats.ts'
import { openExportTarget } from './export-target.ts'
import { startBar } from './progress-bar.ts'
import { findService } from './service.ts'
import type { ServiceFlags } from './service-settings.ts'
import { onStopSignal } from './signals.ts'
import { plainJson } from './terminal-text.ts'
import { version } from './version.ts'

interface ExportRequest extends ServiceFlags {
  format: ExportFormatName
  output?: string
  query: EventQuery
}

/** A restart of the service in the middle of a long export is no reason to begin again. */
const tries = 6
const firstPauseMs = 500

/** The same client, which asks again when the service goes away after it was there, or is overloaded. */
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
        if (!mayPass || !wasThere || attempt === tries) throw fault
        await pause(firstPauseMs * 2 ** (attempt - 1), undefined, { signal })
      }
    }
  }
}

interface Progress {
  show(page: EventList): void
  stop(): void
}

/** How far the export has come down the numbered events: how many match is not known before the end. */
async function startProgress(call: Client, { from }: EventQuery): Promise<Progress> {
  const floor = from === undefined ? 0 : ((await newestBefore(call, from))?.seq ?? 0)
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
      bar.advance(more, Math.max(1, top - floor), process.stderr.isTTY ? `${count} events` : 'Exporting events')
    },
    stop: () => bar.stop(),
  }
}

/** Writes every matching event, page by page, so that a year of them takes no more memory than a day. */
export async function exportEvents({ format, output, query, ...flags }: ExportRequest): Promise<void> {
  const service = await findService(flags)
  const stopped = new AbortController()
  onStopSignal(() => stopped.abort(new Failure('The export was stopped; nothing was written.', 'stopped', 'failed')))
  const call = patient(service.call, stopped.signal)
  const { head, line }: ExportFormat = exportFormats[format]
  const progress = await startProgress(call, query)
  const target = await openExportTarget(output)
  let count = 0
  try {
    await target.write(head)
    for await (const page of eventPages(call, query)) {
      stopped.signal.throwIfAborted()
      if (page.events.length > 0) await target.write(page.events.map((row) => line(row, version)).join(''))
      count += page.events.length
      progress.show(page)
    }
    await target.finish()
  } catch (fault) {
    await target.abandon()
    throw stopped.signal.aborted ? stopped.signal.reason : fault
  } finally {
    progress.stop()
  }
  const file = output ?? null
  if (flags.json)
    (output === undefined ? console.error : console.log)(plainJson({ ok: true, format, events: count, output: file }))
  else console.error(`${count} events as ${format}${output === undefined ? '' : ` in ${output}`}`)
}
