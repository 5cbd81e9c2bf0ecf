import { useQueryClient } from '@tanstack/react-query'
import { getRouteApi, useRouter } from '@tanstack/react-router'
import { type FormEvent, useEffect, useState } from 'react'
import { sentenceOf } from '../service/client.ts'
import { redeemLink, signIn } from '../service/session.ts'
import { WardlineMark } from '../shell/wardline-mark.tsx'

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
  const [fault, setFault] = useState<string>()
  const [isBusy, setBusy] = useState(false)

  async function enter(signingIn: () => Promise<unknown>) {
    setBusy(true)
    setFault(undefined)
    try {
      await signingIn()
      client.clear()
      router.history.push(to ?? '/')
    } catch (problem) {
      setFault(sentenceOf(problem))
      setBusy(false)
    }
  }

  async function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    const form = event.currentTarget
    const key = String(new FormData(form).get('key') ?? '').trim()
    await enter(async () => {
      await signIn(key)
      form.reset()
    })
  }

  useEffect(() => {
    const code = takeLinkCode()
    if (code !== undefined) void enter(() => redeemLink(code))
  }, [])

  return (
    <main className="alone">
      <p className="brand">
        <WardlineMark /> Wardline
      </p>
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
      <p className="quiet">
        The browser keeps a cookie that no script can read: for 12 hours, or until 30 minutes without use.
      </p>
    </main>
  )
}
