import { useQueryClient } from '@tanstack/react-query'
import { getRouteApi, useRouter } from '@tanstack/react-router'
import { type FormEvent, useEffect, useState } from 'react'
import { useChange } from '../data/change.ts'
import { signIn } from '../data/session.ts'
import { Alone } from '../shell/other-pages.tsx'
import { Button } from '../ui/button.tsx'
import { TextField } from '../ui/field.tsx'
import { Fault } from '../ui/panel.tsx'
import { LinkSignIn } from './link-sign-in.tsx'

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
  return (
    <Alone title={code === undefined ? 'Sign in with a key' : 'Sign in with a link'}>
      {code === undefined ? <KeyForm onEnter={enter} /> : <LinkSignIn key={code} code={code} onEnter={enter} />}
      <p className="quiet">
        The browser keeps a cookie that scripts cannot read and a secret that only this site can read. Sessions expire
        after 12 hours, or after 30 minutes without use.
      </p>
    </Alone>
  )
}

function KeyForm({ onEnter }: { onEnter(): void }) {
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
          hint="A key with scope viewer, operator or admin."
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
      <p className="quiet">
        On first start the service saves an admin key as <code>admin-key</code> in its data folder. Admins create keys
        for others: <code>wardline keys create --scope operator --name ada</code>
      </p>
    </>
  )
}
