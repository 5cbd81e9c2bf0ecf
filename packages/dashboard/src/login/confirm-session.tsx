import { useState } from 'react'
import { useChange } from '../data/change.ts'
import { confirmByPasskey } from '../data/passkeys.ts'
import type { Session } from '../data/session.ts'
import { Alone } from '../shell/other-pages.tsx'
import { Button, buttonClass } from '../ui/button.tsx'
import { Fault } from '../ui/panel.tsx'

export const Confirmed = () => (
  <Alone title="Confirmed">
    <p>Close this tab and repeat the change. No further confirmation is needed for 5 minutes.</p>
  </Alone>
)

/** Where a local admin proves again who they are: by a passkey, or by the key. Pressed, because browsers ask for it. */
export function ConfirmSession({ session }: { session: Session }) {
  const { run, isBusy, fault } = useChange({ changes: [] })
  const [isConfirmed, setConfirmed] = useState(false)
  const hasPasskey = session.confirms_by === 'passkey'
  async function confirm() {
    await confirmByPasskey()
    setConfirmed(true)
  }
  if (isConfirmed) return <Confirmed />
  return (
    <Alone title="Confirm that it is you">
      <p>
        {hasPasskey
          ? 'The change needs a confirmation of the last 5 minutes.'
          : 'Sign in again with the local admin key, then repeat the change within 5 minutes.'}
      </p>
      <Fault of={fault} />
      <p className="chips">
        {hasPasskey && (
          <Button kind="go" disabled={isBusy} onClick={() => void run(confirm)}>
            Confirm with a passkey
          </Button>
        )}
        <a className={buttonClass(hasPasskey ? 'default' : 'go')} href="/login?by=key">
          Sign in with the key
        </a>
      </p>
    </Alone>
  )
}
