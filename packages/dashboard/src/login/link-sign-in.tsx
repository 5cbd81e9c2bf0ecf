import { useEffect, useState } from 'react'
import { HostileText } from '../parts/hostile-text.tsx'
import { sentenceOf } from '../service/client.ts'
import { currentSession, previewLink, redeemLink, type Session, signOut } from '../service/session.ts'

/** Longer names are cut, behind a button. */
const shownName = 60

function KeyName({ name, scope }: Session) {
  return (
    <>
      <strong>
        <HostileText text={name} max={shownName} />
      </strong>{' '}
      (scope {scope})
    </>
  )
}

/**
 * Names the key of a login link and waits for a press: a foreign page can navigate a browser to a link of the
 * attacker, and what the user then does would happen under the attacker's key.
 */
export function LinkSignIn({ code, onEnter }: { code: string; onEnter(): void }) {
  const [link, setLink] = useState<Session>()
  const [current, setCurrent] = useState<Session>()
  const [fault, setFault] = useState<string>()
  const [isBusy, setBusy] = useState(true)

  async function attempt(action: () => Promise<void>) {
    setBusy(true)
    setFault(undefined)
    try {
      await action()
    } catch (problem) {
      setFault(sentenceOf(problem))
    }
    setBusy(false)
  }
  useEffect(() => {
    void attempt(async () => {
      setCurrent(await currentSession())
      setLink(await previewLink(code))
    })
  }, [code])

  return (
    <>
      <h1>Sign in with a link</h1>
      {link && (
        <p>
          This link signs you in with the key <KeyName {...link} />. Use it only if you or a person you trust made it.
        </p>
      )}
      {current && (
        <p className="notice">
          This browser is signed in with the key <KeyName {...current} />. Sign out first to use the link.
        </p>
      )}
      <p role="alert" className="fault">
        {fault}
      </p>
      <p className="chips">
        {current ? (
          <>
            <button type="button" className="go" disabled={isBusy} onClick={onEnter}>
              Stay signed in
            </button>
            <button
              type="button"
              disabled={isBusy}
              onClick={() => void attempt(() => signOut().then(() => setCurrent(undefined)))}
            >
              Sign out
            </button>
          </>
        ) : (
          link && (
            <button
              type="button"
              className="go"
              disabled={isBusy}
              onClick={() => void attempt(() => redeemLink(code).then(onEnter))}
            >
              Sign in
            </button>
          )
        )}
        {fault && (
          <a className="button" href="/login">
            Sign in with a key
          </a>
        )}
      </p>
    </>
  )
}
