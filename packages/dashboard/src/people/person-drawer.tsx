import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { Person } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { call } from '../data/client.ts'
import { personQuery } from '../data/people.ts'
import { queryKeys } from '../data/query-keys.ts'
import { ChangeDialog } from '../parts/change-dialog.tsx'
import { OpenSessions } from '../parts/open-sessions.tsx'
import { Button } from '../ui/button.tsx'
import { Drawer } from '../ui/dialog.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { Fault, Notice } from '../ui/panel.tsx'
import { Facts } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'
import { Role } from './role.tsx'

function EndDialog({ person, isOwn, onClose }: { person: Person; isOwn: boolean; onClose(): void }) {
  return (
    <ChangeDialog
      changes={[queryKeys.people, queryKeys.ownSessions]}
      title={
        <>
          End all sessions of <HostileText text={person.name} max={60} />?
        </>
      }
      submit="End all sessions"
      kind="act"
      send={async () => {
        const { ended } = await call('endPersonSessions', { params: { id: person.id } })
        return `${counted(ended, 'session')} ended.`
      }}
      onClose={onClose}
    >
      <p>
        Their browsers are signed out at once, and their streams end. They can sign in again while the provider lets
        them and a group gives them a role.
      </p>
      {isOwn && <Notice>This is you: you are signed out.</Notice>}
    </ChangeDialog>
  )
}

const Details = ({ person, groups }: { person: Person; groups: readonly string[] }) => (
  <>
    <h2>
      <HostileText text={person.name} max={100} />
    </h2>
    <Facts
      facts={[
        ['Role', <Role key="role" person={person} />],
        ['Groups', groups.length === 0 ? 'none' : <HostileText text={groups.join(', ')} max={500} />],
        ['Groups read', <Time key="evaluated" at={person.evaluated_at} />],
        ['Mail address', person.email !== null && <HostileText text={person.email} max={100} />],
        ['First sign-in', <Time key="first" at={person.first_seen_at} />],
        ['Last sign-in', <Time key="last" at={person.signed_in_at} />],
        ['Issuer', <HostileText key="issuer" text={person.issuer} max={200} />, true],
        ['Subject', <HostileText key="subject" text={person.subject} max={200} />, true],
        [
          'Id',
          <>
            <span className="mono">{person.id}</span>{' '}
            <Link to="/audit" search={{ actor: person.id }}>
              In the audit log
            </Link>
          </>,
        ],
      ]}
    />
  </>
)

interface PersonDrawerProps {
  id: string
  isOwn: boolean
  onClose(): void
}

/** A person with their open sessions. The drawer has an address that can be shared. */
export function PersonDrawer({ id, isOwn, onClose }: PersonDrawerProps) {
  const { data, error } = useQuery(personQuery(id))
  const [isAsked, setAsked] = useState(false)
  return (
    <Drawer
      label="Person"
      onClose={onClose}
      actions={
        data && (
          <Button kind="danger" disabled={data.sessions.length === 0} onClick={() => setAsked(true)}>
            End all sessions…
          </Button>
        )
      }
    >
      <Fault of={error} />
      {data && <Details person={data.person} groups={data.groups} />}
      {data && <OpenSessions title="Open sessions" sessions={data.sessions} />}
      {isAsked && data && <EndDialog person={data.person} isOwn={isOwn} onClose={() => setAsked(false)} />}
    </Drawer>
  )
}
