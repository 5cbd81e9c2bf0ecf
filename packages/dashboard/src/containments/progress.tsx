import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { sentenceOf } from '../service/client.ts'
import { containmentQuery } from '../service/containments.ts'
import { containmentHeading, nextSentence } from './containment-texts.ts'
import { Figures } from './figures.tsx'

/** Maximum ids listed in a dialog; the containment's page lists the others. */
const maxNamed = 8

/** Progress of a containment, in the dialog that started it. */
export function Progress({ id }: { id: string }) {
  const { data, error } = useQuery(containmentQuery(id))
  if (!data) return <p role="alert">{error ? sentenceOf(error) : 'Stored. Reading the progress…'}</p>
  return (
    <>
      <p role="alert" className="outcome">
        {containmentHeading(data)}.
      </p>
      <Figures containment={data} />
      <p>{nextSentence(data)}</p>
      {data.missing.length > 0 && (
        <p className="missing">
          <span className="quiet">Not confirmed: </span>
          {data.missing.slice(0, maxNamed).map((agent) => (
            <Link key={agent} to="/fleet/$id" params={{ id: agent }}>
              {agent}
            </Link>
          ))}
          {data.missing_count > maxNamed && <span className="quiet">and {data.missing_count - maxNamed} more</span>}
        </p>
      )}
      <p>
        <Link to="/containments/$id" params={{ id }}>
          Open this containment
        </Link>
      </p>
    </>
  )
}
