import { useQuery } from '@tanstack/react-query'
import { limits, otherFields } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import type { EventFilter, Row } from '../data/live-tail.ts'
import { queryKeys } from '../data/query-keys.ts'
import { saveFile } from '../data/save-file.ts'
import { originFacts, ReportHead } from '../parts/report.tsx'
import { Snippet } from '../parts/snippet.tsx'
import { Button } from '../ui/button.tsx'
import { CopyButton } from '../ui/copy-button.tsx'
import { Dialog, DialogFoot, Drawer, stepsOf } from '../ui/dialog.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { JsonText } from '../ui/json-text.tsx'
import { Fault } from '../ui/panel.tsx'
import { Facts } from '../ui/table.tsx'
import { asCommand, asCurl } from './copy.ts'

interface EventDrawerProps {
  seq: number
  rows: readonly Row[]
  onOpen(seq: number): void
  onClose(): void
}

/** One event. `j` and `k` go to the next and previous one, Escape closes. */
export function EventDrawer({ seq, rows, onOpen, onClose }: EventDrawerProps) {
  const listed = rows.find((row) => row.seq === seq)
  const lookUp = useQuery({
    queryKey: queryKeys.event(seq),
    queryFn: async () =>
      (await call('listEvents', { query: { before: String(seq + 1), limit: '1' } })).events[0] ?? null,
    enabled: !listed,
  })
  const row = listed ?? (lookUp.data?.seq === seq ? lookUp.data : undefined)
  const seqs = rows.map((one) => one.seq)
  return (
    <Drawer label="Event" steps={stepsOf<number | null>(seqs, seq, onOpen)} onClose={onClose}>
      {row ? <EventFacts row={row} /> : <Fault of={lookUp.error} />}
      {!row && !lookUp.error && (
        <p>{lookUp.isPending ? 'Loading event…' : `No event with seq ${seq}. Retention may have deleted it.`}</p>
      )}
    </Drawer>
  )
}

function EventFacts({ row }: { row: Row }) {
  const { seq, ip_address, observed_ip_address } = row
  return (
    <>
      <ReportHead report={row} title={<HostileText text={row.event_type} />} />
      <Facts
        facts={[
          ...originFacts(row),
          ['Address', observed_ip_address !== null && <HostileText text={observed_ip_address} />, true],
          [
            'Reported address',
            ip_address !== null && ip_address !== observed_ip_address && <HostileText text={ip_address} />,
            true,
          ],
          ...Object.entries(otherFields(row)).map(
            ([name, value]) => [name, <HostileText key={name} text={String(value)} />, true] as const,
          ),
          ['Saved at', row.created_at, true],
          ['Seq', seq ?? 'not saved', true],
          ['Id', row.id, true],
        ]}
      />
      {row.metadata !== null && <JsonText value={row.metadata} />}
      <div className="chips">
        <CopyButton name="Copy as JSON" text={JSON.stringify(row, null, 2)} />
        {seq !== null && <CopyButton name="Copy as curl" text={asCurl({ before: String(seq + 1), limit: '1' })} />}
      </div>
    </>
  )
}

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
      <div className="stack">
        <p className="quiet">
          Saves matching events as NDJSON, newest first, up to {maxEvents.toLocaleString('en')}. The command has no
          limit, supports CSV, CEF, OCSF and ECS, and includes suspensions and resumes.
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
      </div>
    </Dialog>
  )
}
