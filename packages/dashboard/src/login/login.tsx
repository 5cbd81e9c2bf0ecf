import { useQueryClient } from '@tanstack/react-query'
import { getRouteApi, useRouter } from '@tanstack/react-router'
import { type FormEvent, useEffect, useState } from 'react'
import { sentenceOf } from '../service/client.ts'
import { signIn } from '../service/session.ts'
import { WardlineMark } from '../shell/wardline-mark.tsx'
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
    <main className="alone">
      <p className="brand">
        <WardlineMark /> Wardline
      </p>
      {code === undefined ? <KeyForm onEnter={enter} /> : <LinkSignIn key={code} code={code} onEnter={enter} />}
      <p className="quiet">
        The browser keeps a cookie that no script can read, and a secret that only this address can read: for 12 hours,
        or until 30 minutes without use.
      </p>
    </main>
  )
}

function KeyForm({ onEnter }: { onEnter(): void }) {
  const [fault, setFault] = useState<string>()
  const [isBusy, setBusy] = useState(false)

  async function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    const form = event.currentTarget
    const key = String(new FormData(form).get('key') ?? '').trim()
    setBusy(true)
    setFault(undefined)
    try {
      await signIn(key)
      form.reset()
      onEnter()
    } catch (problem) {
      setFault(sentenceOf(problem))
      setBusy(false)
    }
  }

  return (
    <>
      <h1>Sign in with a key</h1>
      <form onSubmit={submit} className="rows">
        <label>
          Key of scope viewer, operator or admin
          <input
            name="key"
            type="password"
            autoComplete="current-password"
            required
            maxLength={200}
            aria-describedby="key-fault"
          />
        </label>
        <p id="key-fault" role="alert" className="fault">
          {fault}
        </p>
        <p>
          <button type="submit" className="go" disabled={isBusy}>
            {isBusy ? 'Signing in…' : 'Sign in'}
          </button>
        </p>
      </form>
      <p className="quiet">
        The first start of the service stored an admin key as <code>admin-key</code> in its data folder. An admin
        creates keys for others: <code>wardline keys create --scope operator --name ada</code>
      </p>
    </>
  )
}
