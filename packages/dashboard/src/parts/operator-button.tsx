import type { ComponentProps } from 'react'
import { useMayOperate } from '../data/session.ts'
import { Button } from '../ui/button.tsx'

/** A button that changes something. For viewers it is disabled and shows why. */
export function OperatorButton({ disabled, children, ...rest }: ComponentProps<typeof Button>) {
  const mayOperate = useMayOperate()
  return (
    <Button
      {...rest}
      disabled={disabled || !mayOperate}
      title={mayOperate ? undefined : 'Requires a key with scope operator or admin'}
    >
      {children}
      {!mayOperate && <span className="only-read"> (requires a key with scope operator or admin)</span>}
    </Button>
  )
}
