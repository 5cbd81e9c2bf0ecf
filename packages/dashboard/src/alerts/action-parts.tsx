import type { ComponentProps } from 'react'
import { HostileText } from '../parts/hostile-text.tsx'
import { useMayOperate } from '../service/session.ts'
import type { useAction } from './use-action.ts'

/** A button for changes. For viewers it is disabled and shows why. */
export function OperatorButton({ disabled, children, ...rest }: ComponentProps<'button'>) {
  const mayOperate = useMayOperate()
  return (
    <button
      type="button"
      {...rest}
      disabled={disabled || !mayOperate}
      title={mayOperate ? undefined : 'Your key has scope viewer: only operators and admins change alerts'}
    >
      <span>
        {children}
        {!mayOperate && <span className="only-read"> (needs a key of scope operator)</span>}
      </span>
    </button>
  )
}

/** Result of an action. The element exists before the result, so that screen readers announce it. */
export function OutcomeText({ outcome }: Pick<ReturnType<typeof useAction>, 'outcome'>) {
  return (
    <span role="status" className={outcome?.isFault ? 'fault' : 'quiet'}>
      {outcome && <HostileText text={outcome.text} />}
    </span>
  )
}
