import { useQuery } from '@tanstack/react-query'
import { counted } from '@wardline/text/counted'
import '../parts/list.css'
import { sentenceOf } from '../service/client.ts'
import { figuresQuery } from '../service/containments.ts'
import { msText } from '../suspend/stages.ts'

const msOrUnknown = (ms: number | null) => (ms === null ? 'unknown' : msText(ms))

/** Durations of the stages of suspensions. */
export function StageFigures() {
  const { data, error } = useQuery(figuresQuery)
  return (
    <section className="panel list-panel" aria-labelledby="figures">
      <header>
        <h2 id="figures">From the request to each stage</h2>
        {data && <span className="quiet">{counted(data.suspensions, 'suspension')} of 24 hours</span>}
      </header>
      {error && <p className="empty fault">{sentenceOf(error)}</p>}
      {data && data.suspensions === 0 && <p className="empty">Nothing was suspended in the last 24 hours.</p>}
      {data && data.suspensions > 0 && (
        <table className="list">
          <thead>
            <tr>
              <th>stage</th>
              <th>p50</th>
              <th>p95</th>
              <th>p99</th>
              <th className="only-wide">observed</th>
            </tr>
          </thead>
          <tbody>
            {data.stages.map(({ stage, measured, p50_ms, p95_ms, p99_ms }) => (
              <tr key={stage}>
                <td className="word">{stage}</td>
                <td className="number">{msOrUnknown(p50_ms)}</td>
                <td className="number">{msOrUnknown(p95_ms)}</td>
                <td className="number">{msOrUnknown(p99_ms)}</td>
                <td className="only-wide">
                  {measured} of {data.suspensions}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  )
}
