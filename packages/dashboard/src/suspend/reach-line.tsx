interface ReachLineProps {
  isReached: boolean
  what: string
  how: string
  /** Text for screen readers while the stage is not reached. */
  otherwise?: string
}

export function ReachLine({ isReached, what, how, otherwise = 'Not reached' }: ReachLineProps) {
  return (
    <>
      <span className={isReached ? 'ok' : 'warning'} aria-hidden="true">
        {isReached ? '✓' : '▲'}
      </span>
      <span>
        <span className="only-read">{isReached ? 'Reached' : otherwise}: </span>
        {what}
      </span>
      <span className="quiet">{how}</span>
    </>
  )
}
