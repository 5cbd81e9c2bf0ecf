import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { limits, otherFields, titleOf, toolCallOf, traceLinkOf } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { Fragment, useState } from 'react'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { eventQuery } from '../data/event-tail.ts'
import type { EventFilter, Row } from '../data/live-tail.ts'
import { type Match, matchesQuery } from '../data/rules.ts'
import { saveFile } from '../data/save-file.ts'
import { sessionQuery } from '../data/session.ts'
import { metadataFields, spansOf } from '../parts/match-spans.ts'
import { OperatorButton } from '../parts/operator-button.tsx'
import { originFacts, ReportHead } from '../parts/report.tsx'
import { FiredRules } from '../parts/rule-matches.tsx'
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
  /** The rule whose matches are marked; default: those that fired with the event. */
  rule: string | undefined
  rows: readonly Row[]
  onOpen(seq: number): void
  onClose(): void
}

/** One event. `j` and `k` go to the next and previous one, Escape closes. */
export function EventDrawer({ seq, rule, rows, onOpen, onClose }: EventDrawerProps) {
  const listed = rows.find((row) => row.seq === seq)
  const lookUp = useQuery({ ...eventQuery(seq), enabled: !listed })
  const row = listed ?? lookUp.data
  const seqs = rows.map((one) => one.seq)
  return (
    <Drawer label="Event" steps={stepsOf<number | null>(seqs, seq, onOpen)} onClose={onClose}>
      {row ? <EventFacts row={row} rule={rule} /> : <Fault of={lookUp.error} />}
      {!row && !lookUp.error && (
        <p>{lookUp.isPending ? 'Loading event…' : `No event with seq ${seq}. Retention may have deleted it.`}</p>
      )}
    </Drawer>
  )
}

/** Paths or hosts shown of a call: all are in its metadata below. */
const maxListed = 20

/** What rules matched of the event itself; empty until it is known. */
function useMatches(seq: number | null, rule: string | undefined): Match[] {
  const { data } = useQuery({ ...matchesQuery(seq ?? 0, rule), enabled: seq !== null })
  return (data?.rules ?? []).flatMap(({ events }) =>
    events.flatMap(({ event, matches }) => (event.seq === seq ? matches : [])),
  )
}

function EventFacts({ row, rule }: { row: Row; rule: string | undefined }) {
  const navigate = useNavigate()
  const matches = useMatches(row.seq, rule)
  const marked = (field: string, text: string, max?: number) => (
    <HostileText key={field} text={text} marks={spansOf(matches, [field], text)} {...(max && { max })} />
  )
  const listed = (field: string, texts: readonly string[]) =>
    texts.length > 0 &&
    texts.slice(0, maxListed).map((text, index) => (
      <Fragment key={index}>
        {index > 0 && ', '}
        {marked(field, text)}
      </Fragment>
    ))
  const { seq, ip_address, observed_ip_address } = row
  const { action, paths, hosts, command } = toolCallOf(row)
  const { data: session } = useQuery(sessionQuery)
  const trace = traceLinkOf(session?.trace_url, row.metadata)
  return (
    <>
      <ReportHead report={row} title={titleOf(row)} marks={spansOf(matches, ['description'], row.description)} />
      {seq !== null && <FiredRules seq={seq} rule={rule} />}
      <Facts
        facts={[
          ['Type', marked('event_type', row.event_type), true],
          ...originFacts(row),
          ['Action', action !== null && marked('metadata.action', action)],
          ['Command', command !== null && marked('metadata.command', command, 1_000), true],
          ['Paths', listed('metadata.paths', paths), true],
          ['Hosts', listed('metadata.hosts', hosts), true],
          ['Address', observed_ip_address !== null && marked('ip_address', observed_ip_address), true],
          [
            'Reported address',
            ip_address !== null && ip_address !== observed_ip_address && marked('reported_ip_address', ip_address),
            true,
          ],
          ...Object.entries(otherFields(row)).map(
            ([name, value]) => [name, <HostileText key={name} text={String(value)} />, true] as const,
          ),
          [
            'Trace',
            trace !== null && (
              <a key="trace" href={trace} target="_blank" rel="noreferrer">
                Open in the tracing tool
              </a>
            ),
          ],
          ['Saved at', row.created_at, true],
          ['Seq', seq ?? 'not saved', true],
          ['Id', row.id, true],
        ]}
      />
      {row.metadata !== null && (
        <JsonText value={row.metadata} marksOf={(path, text) => spansOf(matches, metadataFields(path), text)} />
      )}
      <div className="chips">
        {seq !== null && (
          <OperatorButton onClick={() => void navigate({ to: '/rules/new', search: { event: seq } })}>
            Make a rule from this event
          </OperatorButton>
        )}
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
