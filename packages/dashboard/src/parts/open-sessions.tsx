import type { OpenSession } from '@wardline/contract'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { ConfirmButton } from '../ui/button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { DataTable } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'
import { deviceName } from './device-name.ts'

/** Which command lines a browser session allowed, or which browser allowed a command line. */
function Relation({ session: { id, ends }, sessions }: { session: OpenSession; sessions: readonly OpenSession[] }) {
  const lines = sessions.filter((other) => ends.includes(other.id)).flatMap(({ host }) => host ?? [])
  const browser = sessions.find((other) => other.host === null && other.ends.includes(id))
  const isLine = sessions.some((other) => other.id === id && other.host !== null)
  if (isLine && browser)
    return (
      <div className="quiet">Allowed by {deviceName(browser.device ?? '') ?? 'an unknown browser'}; ends with it</div>
    )
  return lines.map((host) => (
    <div key={host} className="quiet">
      Allowed the command line on <HostileText text={host} max={60} />, which ends with it
    </div>
  ))
}

function Device({ session: { device, host, current, address } }: { session: OpenSession }) {
  const name = deviceName(device ?? '')
  return (
    <>
      <b>
        {host === null ? (
          (name ?? 'Unknown browser')
        ) : (
          <>
            Command line on <HostileText text={host} max={60} line />
          </>
        )}
      </b>
      {current && ' (this browser)'}
      <div className="quiet">
        {address !== null && <HostileText text={address} max={45} />}
        {device !== null && name === undefined && (
          <>
            {' · '}
            <HostileText text={device} max={80} />
          </>
        )}
      </div>
    </>
  )
}

interface OpenSessionsProps {
  title: string
  /** Undefined while they are loading. */
  sessions: readonly OpenSession[] | undefined
  fault?: unknown
}

/** Sessions of browsers and command lines, each with a button that ends it. The own one is ended by signing out. */
export function OpenSessions({ title, sessions, fault }: OpenSessionsProps) {
  const change = useChange({ changes: [queryKeys.ownSessions, queryKeys.people] })
  const end = (id: string) => change.run(() => call('endSession', { params: { id } }), 'Session ended.')
  return (
    <DataTable
      title={title}
      fault={fault ?? change.fault}
      rows={sessions}
      rowKey={({ id }) => id}
      empty="No open sessions."
      columns={[
        {
          name: 'Device and address',
          cell: (session) => (
            <>
              <Device session={session} />
              <Relation session={session} sessions={sessions ?? []} />
            </>
          ),
        },
        { name: 'Last used', kind: 'number', cell: ({ last_used_at }) => <Time at={last_used_at} /> },
        { name: 'Signed in', kind: 'number', isWide: true, cell: ({ created_at }) => <Time at={created_at} /> },
        { name: 'Expires', kind: 'number', isExtra: true, cell: ({ expires_at }) => <Time at={expires_at} /> },
      ]}
      actions={({ id, device, host, current, ends }) =>
        !current && (
          <ConfirmButton
            sure={ends.length === 0 ? 'End it' : ends.length === 1 ? 'End both' : `End all ${ends.length + 1}`}
            about={host ?? deviceName(device ?? '')}
            disabled={change.isBusy}
            onConfirm={() => void end(id)}
          >
            End
          </ConfirmButton>
        )
      }
    />
  )
}
