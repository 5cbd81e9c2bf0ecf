import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { call } from '../data/client.ts'
import type { Row } from '../data/live-tail.ts'
import { queryKeys } from '../data/query-keys.ts'
import { SeverityMark } from '../parts/marks.tsx'
import { CopyButton } from '../ui/copy-button.tsx'
import { Drawer, stepsOf } from '../ui/dialog.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { JsonText } from '../ui/json-text.tsx'
import { Fault } from '../ui/panel.tsx'
import { Facts } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'
import { asJson, curlOfEvent } from './copy.ts'

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
  const { instance_id, session_id, ip_address, observed_ip_address } = row
  const curl = curlOfEvent(location.origin, row)
  const text = (value: string | null) => value !== null && <HostileText text={value} />
  return (
    <>
      <p>
        <SeverityMark severity={row.severity} /> <Time at={row.created_at} />
      </p>
      <h2 className="mono">
        <HostileText text={row.event_type} />
      </h2>
      <p>
        <HostileText text={row.description} max={1_000} />
      </p>
      <p className="quiet">{row.by_service ? 'Reported by Wardline.' : 'Reported by a client; not verified.'}</p>
      <Facts
        facts={[
          [
            'Agent',
            instance_id !== null && (
              <Link to="/fleet/$id" params={{ id: instance_id }}>
                {instance_id}
              </Link>
            ),
          ],
          [
            'Session',
            session_id !== null && (
              <Link to="/events" search={{ session_id }}>
                <HostileText text={session_id} />
              </Link>
            ),
            true,
          ],
          ['Source', text(row.source), true],
          ['Address', text(observed_ip_address), true],
          ['Reported address', ip_address !== observed_ip_address && text(ip_address), true],
          ['Stored at', row.created_at, true],
          ['Seq', row.seq ?? 'not stored', true],
          ['Id', row.id, true],
        ]}
      />
      {row.metadata !== null && <JsonText value={row.metadata} />}
      <div className="chips">
        <CopyButton name="Copy as JSON" text={asJson(row)} />
        {curl !== undefined && <CopyButton name="Copy as curl" text={curl} />}
      </div>
    </>
  )
}
