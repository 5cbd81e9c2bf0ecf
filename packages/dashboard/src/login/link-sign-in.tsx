import { useEffect, useState } from 'react'
import { useChange } from '../data/change.ts'
import { currentSession, previewLink, redeemLink, type Session, signOut } from '../data/session.ts'
import { Button, buttonClass } from '../ui/button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { Fault, Notice } from '../ui/panel.tsx'

const Name = ({ name, scope }: Session) => (
  <>
    <strong>
      <HostileText text={name} max={60} />
    </strong>{' '}
    (scope {scope})
  </>
)

/**
 * Names the key of a login link and waits for a press: a foreign page can navigate a browser to a link of the
 * attacker, and what the user then does would happen under the attacker's key.
 */
export function LinkSignIn({ code, onEnter }: { code: string; onEnter(): void }) {
  const [link, setLink] = useState<Session>()
  const [current, setCurrent] = useState<Session>()
  const { run, isBusy, fault } = useChange({ changes: [] })
  useEffect(() => {
    void run(async () => {
      setCurrent(await currentSession())
      setLink(await previewLink(code))
    })
  }, [code])
  async function leave() {
    // Stays on this page, which has the link: the session at the provider goes on.
    await signOut()
    setCurrent(undefined)
  }
  async function enter() {
    await redeemLink(code)
    onEnter()
  }

  return (
    <>
      {link && (
        <p>
          This link signs you in with the key <Name {...link} />. Use it only if you or someone you trust created it.
        </p>
      )}
      {current && (
        <Notice>
          This browser is signed in {current.person ? 'as' : 'with the key'} <Name {...current} />. Sign out first to
          use the link.
        </Notice>
      )}
      <Fault of={fault} />
      <p className="chips">
        {current ? (
          <>
            <Button kind="go" disabled={isBusy} onClick={onEnter}>
              Stay signed in
            </Button>
            <Button disabled={isBusy} onClick={() => void run(leave)}>
              Sign out
            </Button>
          </>
        ) : (
          link && (
            <Button kind="go" disabled={isBusy} onClick={() => void run(enter)}>
              Sign in
            </Button>
          )
        )}
        {fault && (
          <a className={buttonClass()} href="/login">
            Sign in with a key
          </a>
        )}
      </p>
    </>
  )
}
