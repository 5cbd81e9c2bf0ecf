import { useChange } from '../data/change.ts'
import { signInByPasskey } from '../data/passkeys.ts'
import { Button, type ButtonKind } from '../ui/button.tsx'
import { Fault } from '../ui/panel.tsx'

/** Signs the local admin in. */
export function PasskeyButton({ kind, onEnter }: { kind: ButtonKind; onEnter(): void }) {
  const { run, isBusy, fault } = useChange({ changes: [] })
  async function enter() {
    await signInByPasskey()
    onEnter()
  }
  return (
    <>
      <p>
        <Button kind={kind} disabled={isBusy} onClick={() => void run(enter)}>
          {isBusy ? 'Signing in…' : 'Sign in with a passkey'}
        </Button>
      </p>
      <Fault of={fault} />
    </>
  )
}
