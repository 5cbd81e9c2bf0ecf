import { HostileText } from '../parts/hostile-text.tsx'

/** The receiver's last response, verbatim. */
export function ReceiverSaid(said: { status: number | null; answer: string | null; error: string | null }) {
  const { status, answer, error } = said
  if (status === null && !answer && error === null) return null
  return (
    <p className="quiet">
      {error !== null && (
        <>
          <HostileText text={error} />{' '}
        </>
      )}
      {(status !== null || answer) && 'Answer: '}
      {status !== null && <b>{status} </b>}
      {answer && (
        <q>
          <HostileText text={answer} />
        </q>
      )}
    </p>
  )
}
