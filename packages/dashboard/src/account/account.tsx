import { useQuery } from '@tanstack/react-query'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { sessionQuery } from '../data/session.ts'
import { OpenSessions } from '../parts/open-sessions.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { Screen } from '../ui/panel.tsx'
import { MailNotifications, Notifications } from './notifications.tsx'
import { Passkeys } from './passkeys.tsx'

/** The open sessions of the key or person that is signed in, and of what this browser notifies them. */
export function Account() {
  const { data: session } = useQuery(sessionQuery)
  const { data, error } = useQuery({
    queryKey: queryKeys.ownSessions,
    queryFn: async ({ signal }) => (await call('listOwnSessions', { signal })).sessions,
    refetchInterval: 15_000,
  })
  return (
    <Screen
      title="Your sessions"
      lead={
        session && (
          <>
            {session.person
              ? 'Sessions of '
              : session.passkey
                ? 'Sessions of the passkey '
                : 'Sessions of everyone who uses the key '}
            <HostileText text={session.name} max={60} />. Ending one signs that browser or command line out at once.
          </>
        )
      }
    >
      <OpenSessions title="Open sessions" sessions={data} fault={error} />
      {session && <Notifications session={session} />}
      {session?.person && <MailNotifications />}
      {session?.scope === 'admin' && <Passkeys />}
    </Screen>
  )
}
