import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { CopyButton } from '../parts/copy-button.tsx'
import { Dialog } from '../parts/dialog.tsx'
import '../parts/facts.css'
import { HostileText } from '../parts/hostile-text.tsx'
import { JsonText } from '../parts/json-text.tsx'
import { SeverityMark } from '../parts/marks.tsx'
import { Time } from '../parts/time.tsx'
import { call } from '../service/client.ts'
import type { Row } from '../service/live-tail.ts'
import { asJson, curlOfEvent } from './copy.ts'

/** One event. `j` and `k` go to the next and previous one, Escape closes. */
export function EventDrawer({
  seq,
  rows,
  onOpen,
  onClose,
}: {
  seq: number
  rows: readonly Row[]
  onOpen(seq: number): void
  onClose(): void
}) {
  const index = rows.findIndex((row) => row.seq === seq)
  const lookUp = useQuery({
    queryKey: ['event', seq],
    queryFn: async () =>
      (await call('listEvents', { query: { before: String(seq + 1), limit: '1' } })).events[0] ?? null,
    enabled: index < 0,
  })
  const found = rows[index] ?? lookUp.data ?? undefined
  const row = found?.seq === seq ? found : undefined
  const step = (by: number) => {
    const next = rows[index + by]?.seq
    if (index >= 0 && next) onOpen(next)
  }
  return (
    <Dialog label="Event" onClose={onClose} className="drawer">
      {/* biome-ignore lint/a11y/noStaticElementInteractions: keys of the dialog */}
      <div
        onKeyDown={(event) => {
          if (event.key === 'j') step(1)
          if (event.key === 'k') step(-1)
        }}
      >
        <div className="chips">
          <button type="button" onClick={onClose}>
            Close <kbd>Esc</kbd>
          </button>
          <button type="button" disabled={index < 0 || !rows[index + 1]} onClick={() => step(1)}>
            Older <kbd>j</kbd>
          </button>
          <button type="button" disabled={index < 1} onClick={() => step(-1)}>
            Newer <kbd>k</kbd>
          </button>
        </div>
        {!row && (
          <p className="facts">
            {lookUp.isPending ? 'Reading the event…' : `No event with seq ${seq}: retention may have removed it.`}
          </p>
        )}
        {row && <EventFacts row={row} />}
      </div>
    </Dialog>
  )
}

function EventFacts({ row }: { row: Row }) {
  const curl = curlOfEvent(location.origin, row)
  const facts: [name: string, value: string | null][] = [
    ['source', row.source],
    ['address', row.observed_ip_address],
    ['reported address', row.ip_address === row.observed_ip_address ? null : row.ip_address],
    ['stored at', row.created_at],
    ['seq', row.seq === null ? 'not stored' : String(row.seq)],
    ['id', row.id],
  ]
  return (
    <div className="facts">
      <p>
        <SeverityMark severity={row.severity} /> <Time at={row.created_at} />
      </p>
      <h2 className="mono">
        <HostileText text={row.event_type} />
      </h2>
      <p>
        <HostileText text={row.description} max={1_000} />
      </p>
      <p className="quiet">
        {row.by_service ? 'Reported by the service itself.' : 'As a caller reported it: nobody checked it.'}
      </p>
      <table>
        <tbody>
          {row.instance_id !== null && (
            <tr>
              <th scope="row">agent</th>
              <td>
                <Link to="/fleet/$id" params={{ id: row.instance_id }}>
                  {row.instance_id}
                </Link>
              </td>
            </tr>
          )}
          {row.session_id !== null && (
            <tr>
              <th scope="row">session</th>
              <td className="mono">
                <Link to="/events" search={{ session_id: row.session_id }}>
                  <HostileText text={row.session_id} />
                </Link>
              </td>
            </tr>
          )}
          {facts.map(
            ([name, value]) =>
              value !== null && (
                <tr key={name}>
                  <th scope="row">{name}</th>
                  <td className="mono">
                    <HostileText text={value} />
                  </td>
                </tr>
              ),
          )}
        </tbody>
      </table>
      {row.metadata !== null && <JsonText value={row.metadata} />}
      <div className="chips">
        <CopyButton name="Copy as JSON" text={asJson(row)} />
        {curl !== undefined && <CopyButton name="Copy as curl" text={curl} />}
      </div>
    </div>
  )
}
