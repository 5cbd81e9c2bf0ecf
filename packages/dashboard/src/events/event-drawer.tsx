import { useQuery } from '@tanstack/react-query'
import { call } from '../data/client.ts'
import type { Row } from '../data/live-tail.ts'
import { queryKeys } from '../data/query-keys.ts'
import { originFacts, ReportHead } from '../parts/report.tsx'
import { CopyButton } from '../ui/copy-button.tsx'
import { Drawer, stepsOf } from '../ui/dialog.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { JsonText } from '../ui/json-text.tsx'
import { Fault } from '../ui/panel.tsx'
import { Facts } from '../ui/table.tsx'
import { asCurl } from './copy.ts'

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
  const steps = stepsOf<number | null>(
    rows.map((one) => one.seq),
    seq,
    onOpen,
  )
  return (
    <Drawer label="Event" steps={steps} onClose={onClose}>
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
