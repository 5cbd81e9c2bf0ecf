import { useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { type FormEvent, type ReactNode, useEffect, useState } from 'react'
import { useChange } from '../data/change.ts'
import { isSignedOut } from '../data/client.ts'
import {
  allowCommandLogin,
  type CommandLogin,
  findCommandLogin,
  forgetCode,
  refuseCommandLogin,
  takeCode,
} from '../data/command-logins.ts'
import { type Session, sessionQuery } from '../data/session.ts'
import { Alone } from '../shell/other-pages.tsx'
import { Button, buttonClass } from '../ui/button.tsx'
import { TextField } from '../ui/field.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { Fault, Notice } from '../ui/panel.tsx'

const route = getRouteApi('/auth/cli')

/** Where a person allows a command line to act for them. */
export function CommandLoginPage() {
  const { done, refused } = route.useSearch()
  const { data: session, error, isPending } = useQuery({ ...sessionQuery, retry: false })
  // Also where nobody is signed in yet: it must leave the address before the sign-in.
  const [code, setCode] = useState(takeCode)
  useEffect(() => {
    // A second link that is opened in the same tab changes only the part after the #.
    const look = () => setCode(takeCode())
    addEventListener('hashchange', look)
    return () => removeEventListener('hashchange', look)
  }, [])

  if (done) {
    return (
      <Page>
        <p>The command line is logged in. Close this tab and go back to the terminal.</p>
      </Page>
    )
  }
  if (refused) {
    return (
      <Page>
        <p>Refused: the command line is not logged in.</p>
      </Page>
    )
  }
  if (isPending) return <Page />
  if (!session) {
    return (
      <Page>
        {isSignedOut(error) ? <p>Sign in to go on: the command line will act for you.</p> : <Fault of={error} />}
        <p>
          <a className={buttonClass('go')} href="/login?to=%2Fauth%2Fcli">
            Sign in
          </a>
        </p>
      </Page>
    )
  }
  return (
    <Page>
      <Asking key={code} given={code} session={session} />
    </Page>
  )
}

const Page = ({ children }: { children?: ReactNode }) => <Alone title="Log a command line in">{children}</Alone>

/** What shows a code, once it is known. `given`: the code of the address, which only a command line of this machine has. */
function Asking({ given, session }: { given: string | undefined; session: Session }) {
  const { run, isBusy, fault } = useChange({ changes: [] })
  const [found, setFound] = useState<{ code: string; login: CommandLogin }>()
  const find = (code: string) => run(async () => setFound({ code, login: await findCommandLogin(code) }))
  useEffect(() => {
    if (given === undefined) return
    void run(async () => {
      const login = await findCommandLogin(given).finally(forgetCode)
      // A link that was sent to someone must not spare them the typing, and the thought.
      if (login.loopback) setFound({ code: given, login })
    })
  }, [given])

  if (!found) return <CodeForm isBusy={isBusy} fault={fault} onEnter={(code) => void find(code)} />
  const { code, login } = found
  return (
    <>
      <Asker code={code} login={login} session={session} />
      <Fault of={fault} />
      <p className="chips">
        <Button kind="go" disabled={isBusy} onClick={() => void run(() => allowCommandLogin(code))}>
          {isBusy ? 'Allowing…' : 'Allow'}
        </Button>
        <Button disabled={isBusy} onClick={() => void run(() => refuseCommandLogin(code))}>
          Refuse
        </Button>
      </p>
    </>
  )
}

interface CodeFormProps {
  isBusy: boolean
  fault: Error | undefined
  onEnter(code: string): void
}

function CodeForm({ isBusy, fault, onEnter }: CodeFormProps) {
  function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    onEnter(String(new FormData(event.currentTarget).get('code')).trim())
  }
  return (
    <form onSubmit={submit} className="stack">
      <Notice>
        Enter only a code that you see in your own terminal. If someone sent it to you, they would act under your name.
      </Notice>
      <TextField
        label="Code"
        hint="As wardline login shows it, such as BCDF-GHJK."
        name="code"
        isCode
        required
        minLength={8}
        maxLength={20}
        pattern="[A-Za-z \-]+"
        autoCapitalize="characters"
      />
      <Fault of={fault} />
      <p>
        <Button isSubmit kind="go" disabled={isBusy}>
          Continue
        </Button>
      </p>
    </form>
  )
}

/** Who asks, from where, and for whom. */
function Asker({ code, login, session }: { code: string; login: CommandLogin; session: Session }) {
  const { host, address, same_address: isSame, loopback, confirm } = login
  return (
    <>
      <p>
        The command line on <HostileText text={host} max={60} line /> asks to act as{' '}
        <strong>
          <HostileText text={session.name} max={60} line />
        </strong>{' '}
        (scope {session.scope}), until its session ends.
      </p>
      <p>
        It must show the code <strong className="mono">{code.toUpperCase()}</strong>. Its address is{' '}
        <HostileText text={address === '' ? 'unknown' : address} max={45} line />,{' '}
        {isSame ? 'the same as' : 'another than'} that of this browser.
      </p>
      {!loopback && (
        <Notice>Allow it only if you have just run wardline login yourself, on a machine that you know.</Notice>
      )}
      {confirm && session.confirms_by === 'provider' && <p>The provider asks you to prove again that it is you.</p>}
    </>
  )
}
