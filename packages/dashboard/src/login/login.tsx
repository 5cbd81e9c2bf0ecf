import { useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, useRouter } from '@tanstack/react-router'
import type { SignIn } from '@wardline/contract'
import { type FormEvent, type ReactNode, useEffect, useState } from 'react'
import { useChange } from '../data/change.ts'
import { signIn } from '../data/session.ts'
import { signInQuery, startAddress } from '../data/sign-in.ts'
import { Alone } from '../shell/other-pages.tsx'
import { Button, buttonClass } from '../ui/button.tsx'
import { TextField } from '../ui/field.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { Fault } from '../ui/panel.tsx'
import { LinkSignIn } from './link-sign-in.tsx'
import css from './login.module.css'
import { PasskeyButton } from './passkey-button.tsx'

const route = getRouteApi('/login')

/**
 * Returns the code after the # of a login link and removes it from the address, so that the browser history does not
 * keep it.
 */
function takeLinkCode(): string | undefined {
  const code = /^#([\w-]{43})$/.exec(location.hash)?.[1]
  if (code !== undefined) history.replaceState(history.state, '', location.pathname + location.search)
  return code
}

export function Login() {
  const { to } = route.useSearch()
  const router = useRouter()
  const client = useQueryClient()
  const [code, setCode] = useState<string>()
  // Without an answer the form for keys is shown: a service that is unwell answers that too, or says why not.
  const { data: ways, isPending } = useQuery({ ...signInQuery, retry: false })

  useEffect(() => {
    const look = () => setCode((known) => takeLinkCode() ?? known)
    look()
    // A second link that is opened in the same tab changes only the part after the #.
    addEventListener('hashchange', look)
    return () => removeEventListener('hashchange', look)
  }, [])

  function enter() {
    client.clear()
    router.history.push(to ?? '/')
  }
  if (code !== undefined) {
    return (
      <Page title="Sign in with a link">
        <LinkSignIn key={code} code={code} onEnter={enter} />
      </Page>
    )
  }
  if (isPending) return <Page title="Sign in" />
  if (!ways || (!ways.provider && !ways.passkeys)) {
    return (
      <Page title="Sign in with a key">
        <KeyForm onEnter={enter} />
      </Page>
    )
  }
  return (
    <Page title="Sign in">
      <Ways ways={ways} onEnter={enter} />
    </Page>
  )
}

const Page = ({ title, children }: { title: string; children?: ReactNode }) => (
  <Alone title={title}>
    {children}
    <p className="quiet">
      The browser keeps a cookie that scripts cannot read and a secret that only this site can read. Sessions expire
      after 12 hours, or after 30 minutes without use.
    </p>
  </Alone>
)

/** Beside the provider, key and passkey are for emergencies. */
function Ways({ ways: { provider, people_only: isPeopleOnly, passkeys }, onEnter }: { ways: SignIn; onEnter(): void }) {
  const { to, by } = route.useSearch()
  const key = isPeopleOnly ? 'the local admin key' : 'a key'
  return (
    <>
      {provider ? (
        <p>
          <a className={buttonClass('go')} href={startAddress(to)}>
            <span>
              Sign in with <HostileText text={provider.name} max={60} line />
            </span>
          </a>
        </p>
      ) : (
        <PasskeyButton kind="go" onEnter={onEnter} />
      )}
      <details className={css.byKey} open={by === 'key'}>
        <summary>
          Sign in with {key}
          {provider && passkeys && ' or a passkey'}
        </summary>
        <div className="stack">
          {isPeopleOnly && (
            <p>
              Only people sign in here. The local admin key is for emergencies: each use raises a critical alert. It is
              the value of <code>WARDLINE_API_KEY</code>, or the file <code>admin-key</code> in the data folder.
            </p>
          )}
          {provider && passkeys && <PasskeyButton kind="default" onEnter={onEnter} />}
          <KeyForm isLocalOnly={isPeopleOnly} onEnter={onEnter} />
        </div>
      </details>
    </>
  )
}

function KeyForm({ isLocalOnly = false, onEnter }: { isLocalOnly?: boolean; onEnter(): void }) {
  const { run, isBusy, fault } = useChange({ changes: [] })
  function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    const form = event.currentTarget
    void run(async () => {
      await signIn(String(new FormData(form).get('key')).trim())
      form.reset()
      onEnter()
    })
  }
  return (
    <>
      <form onSubmit={submit} className="stack">
        <TextField
          label="API key"
          hint={isLocalOnly ? undefined : 'A key with scope viewer, operator or admin.'}
          name="key"
          type="password"
          autoComplete="current-password"
          required
          maxLength={200}
        />
        <Fault of={fault} />
        <p>
          <Button isSubmit kind="go" disabled={isBusy}>
            {isBusy ? 'Signing in…' : 'Sign in'}
          </Button>
        </p>
      </form>
      {!isLocalOnly && (
        <p className="quiet">
          On first start the service saves an admin key as <code>admin-key</code> in its data folder. Admins create keys
          for others: <code>wardline keys create --scope operator --name ada</code>
        </p>
      )}
    </>
  )
}
