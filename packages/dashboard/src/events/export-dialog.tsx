import { limits } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useEffect, useRef, useState } from 'react'
import { CopyButton } from '../parts/copy-button.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { call, sentenceOf } from '../service/client.ts'
import type { EventFilter } from '../service/live-tail.ts'
import { saveFile } from '../service/save-file.ts'
import { asCommand } from './copy.ts'

/** A browser keeps the file in memory until it is saved: some 50 MB. The CLI has no such limit. */
const maxEvents = 100_000

interface Progress {
  events: number
  end?: 'all' | 'limit'
  fault?: string
}

/** Saves matching events as JSON lines, and shows the command for other formats. */
export function ExportDialog({ filter, onClose }: { filter: EventFilter; onClose(): void }) {
  const [progress, setProgress] = useState<Progress>()
  const stop = useRef(new AbortController())
  useEffect(() => {
    const { current } = stop
    return () => current.abort()
  }, [])

  async function save() {
    const lines: string[] = []
    let before: string | undefined
    let isLast = false
    setProgress({ events: 0 })
    try {
      while (!isLast && lines.length < maxEvents) {
        const query = { ...filter, limit: String(limits.pageSize), ...(before ? { before } : {}) }
        const { events, next } = await call('listEvents', { query, signal: stop.current.signal })
        for (const event of events) lines.push(`${JSON.stringify(event)}\n`)
        setProgress({ events: lines.length })
        before = next ?? undefined
        isLast = next === null
      }
      const time = new Date().toISOString().slice(0, 19).replaceAll(':', '')
      saveFile(new Blob(lines, { type: 'application/x-ndjson' }), `wardline-events-${time}.ndjson`)
      setProgress({ events: lines.length, end: isLast ? 'all' : 'limit' })
    } catch (fault) {
      setProgress({ events: lines.length, fault: sentenceOf(fault) })
    }
  }
  return (
    <Dialog label="Export events" onClose={onClose}>
      <h2>Export the events of this filter</h2>
      <p className="quiet">
        A file with one JSON object a line, newest first, of at most {maxEvents.toLocaleString('en')} events. The
        command line exports any number, also as CSV, CEF, OCSF and ECS, with kills and resumes:
      </p>
      <p>
        <code className="command">{asCommand(filter)}</code>
      </p>
      <p role="status">
        {progress?.fault ??
          (progress &&
            (progress.end === undefined
              ? `${counted(progress.events, 'event')} read…`
              : `${counted(progress.events, 'event')} saved${progress.end === 'limit' ? ', the newest: there are more' : ''}.`))}
      </p>
      <div className="foot">
        <button type="button" onClick={onClose}>
          Close <kbd>Esc</kbd>
        </button>
        <CopyButton name="Copy the command" text={asCommand(filter)} />
        <button
          type="button"
          className="go"
          data-first
          disabled={progress !== undefined && progress.end === undefined && progress.fault === undefined}
          onClick={() => void save()}
        >
          Save as NDJSON
        </button>
      </div>
    </Dialog>
  )
}
