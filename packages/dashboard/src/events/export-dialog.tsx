import { limits } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import type { EventFilter } from '../data/live-tail.ts'
import { saveFile } from '../data/save-file.ts'
import { Snippet } from '../parts/snippet.tsx'
import { Button } from '../ui/button.tsx'
import { Dialog, DialogFoot } from '../ui/dialog.tsx'
import { Fault } from '../ui/panel.tsx'
import { asCommand } from './copy.ts'

/** A browser keeps the file in memory until it is saved: some 50 MB. The CLI has no such limit. */
const maxEvents = 100_000

/** Saves matching events as JSON lines, and shows the command for other formats. */
export function ExportDialog({ filter, onClose }: { filter: EventFilter; onClose(): void }) {
  const saving = useChange({ changes: [] })
  const [count, setCount] = useState(0)

  async function save(signal: AbortSignal) {
    setCount(0)
    const lines: string[] = []
    let before: string | null | undefined
    while (before !== null && lines.length < maxEvents) {
      const query = { ...filter, limit: String(limits.pageSize), ...(before ? { before } : {}) }
      const { events, next } = await call('listEvents', { query, signal })
      for (const event of events) lines.push(`${JSON.stringify(event)}\n`)
      setCount(lines.length)
      before = next
    }
    const time = new Date().toISOString().slice(0, 19).replaceAll(':', '')
    saveFile(new Blob(lines, { type: 'application/x-ndjson' }), `wardline-events-${time}.ndjson`)
    const saved = counted(lines.length, 'event')
    return before === null ? `${saved} saved.` : `Newest ${saved} saved. Use the command to export all.`
  }
  return (
    <Dialog title="Export events" onClose={onClose}>
      <p className="quiet">
        Saves matching events as NDJSON, newest first, up to {maxEvents.toLocaleString('en')}. The command has no limit,
        supports CSV, CEF, OCSF and ECS, and includes suspensions and resumes.
      </p>
      <Snippet label="Command" text={asCommand(filter)} />
      <p role="status">{saving.isBusy && `${counted(count, 'event')} loaded…`}</p>
      <Fault of={saving.fault} />
      <DialogFoot>
        <Button onClick={onClose} shortcut="Esc">
          Close
        </Button>
        <Button
          kind="go"
          data-first
          disabled={saving.isBusy}
          onClick={async () => (await saving.run(save)) && onClose()}
        >
          Save as NDJSON
        </Button>
      </DialogFoot>
    </Dialog>
  )
}
