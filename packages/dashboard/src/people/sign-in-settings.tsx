import type { SignIn } from '@wardline/contract'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { ChangeButton } from '../parts/change-dialog.tsx'
import { Snippet } from '../parts/snippet.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { Panel } from '../ui/panel.tsx'
import { Facts } from '../ui/table.tsx'

/** Lets keys open sessions, or only people. */
export function SignInSettings({ signIn: { provider, people_only: isPeopleOnly } }: { signIn: SignIn }) {
  return (
    <Panel title="Sign-in">
      <Facts
        facts={[
          ['Provider', provider && <HostileText text={provider.name} max={100} />],
          [
            'Sessions of keys',
            isPeopleOnly ? 'refused: only people sign in, and the local admin key' : 'allowed: people and keys sign in',
          ],
        ]}
      />
      <div className="inner">
        <p className="quiet">
          Keys of programs and agents work either way. Once a person with role admin has signed in, each use of the
          local admin key raises a critical alert.
        </p>
        <p>
          <ChangeButton
            name={isPeopleOnly ? 'Let keys sign in…' : 'Only people sign in…'}
            title={isPeopleOnly ? 'Let keys sign in?' : 'Let only people sign in?'}
            submit={isPeopleOnly ? 'Let keys sign in' : 'Only people sign in'}
            changes={[queryKeys.signIn]}
            send={async () => {
              await call('setSignIn', { body: { people_only: !isPeopleOnly } })
              return isPeopleOnly ? 'Keys can sign in.' : 'Only people sign in.'
            }}
          >
            <p>
              {isPeopleOnly
                ? 'Keys with scope viewer, operator or admin open sessions again.'
                : 'Keys open no more sessions, except the local admin key in an emergency: WARDLINE_API_KEY, or the file admin-key in the data folder.'}
            </p>
          </ChangeButton>
        </p>
      </div>
    </Panel>
  )
}

const settings = `WARDLINE_PUBLIC_URL=${location.origin}
WARDLINE_OIDC_ISSUER=https://login.example.com
WARDLINE_OIDC_CLIENT_ID=wardline
WARDLINE_OIDC_CLIENT_SECRET_FILE=/run/secrets/oidc`

/** What to do where no provider is configured. */
export function SetUp() {
  return (
    <Panel title="Set it up">
      <div className="inner">
        <p>
          People can sign in at an OpenID Connect provider, such as Keycloak, Okta, Entra ID or Google, instead of with
          a key. Create a client there with the redirect address <code>{location.origin}/auth/callback</code>, then set:
        </p>
        <Snippet label="Environment of the service" text={settings} />
        <p>
          Restart the service, then give groups their roles on this page. The guide, <code>docs/guide/people.md</code>,
          has the steps for each provider.
        </p>
      </div>
    </Panel>
  )
}
