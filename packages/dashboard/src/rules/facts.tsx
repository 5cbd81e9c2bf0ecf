import { Link } from '@tanstack/react-router'
import { HostileText } from '../parts/hostile-text.tsx'
import { Time, useNow } from '../parts/time.tsx'
import type { Rule } from '../service/rules.ts'

/** The rule's exceptions, with reason and expiry. */
export function Exceptions({ document: { exceptions = [] } }: Pick<Rule, 'document'>) {
  const now = useNow()
  return (
    <section className="panel list-panel" aria-labelledby="exceptions">
      <header>
        <h2 id="exceptions">Exceptions</h2>
        <span className="quiet">{exceptions.length === 0 ? 'none' : exceptions.length}</span>
      </header>
      {exceptions.length === 0 ? (
        <p className="empty">
          Nobody is passed over. <code>exceptions</code> in the text names agents or tags, a reason and an end.
        </p>
      ) : (
        <table className="list">
          <thead>
            <tr>
              <th>who</th>
              <th>why</th>
              <th>until</th>
            </tr>
          </thead>
          <tbody>
            {exceptions.map(({ who: { instances = [], tags = [] }, reason, until }, index) => (
              <tr key={index}>
                <td>
                  {[...instances, ...tags.map((tag) => `tag ${tag}`)].map((name) => (
                    <span key={name} className="exception-who">
                      <HostileText text={name} max={130} />
                    </span>
                  ))}
                </td>
                <td>
                  <HostileText text={reason} max={300} />
                </td>
                <td className="number">
                  <Time at={new Date(until).toISOString()} />
                  {Date.parse(until) <= now && <span className="under">over</span>}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  )
}

export function Versions({ rule: { versions, version: newest }, shown }: { rule: Rule; shown: number | undefined }) {
  return (
    <section className="panel list-panel" aria-labelledby="versions">
      <header>
        <h2 id="versions">Versions</h2>
        <span className="quiet">each other text is one; a firing names its version</span>
      </header>
      <table className="list versions">
        <thead className="only-read">
          <tr>
            <th>version</th>
            <th>stored</th>
            <th>by</th>
          </tr>
        </thead>
        <tbody>
          {versions.map(({ version, created_at, created_by }) => {
            const isShown = version === (shown ?? newest)
            return (
              <tr key={version} className={isShown ? 'at' : ''}>
                <td>
                  <Link
                    from="/rules/$id"
                    search={(before) => ({ ...before, version: version === newest ? undefined : version })}
                    aria-current={isShown ? 'true' : undefined}
                    replace
                    resetScroll={false}
                  >
                    v{version}
                  </Link>
                </td>
                <td className="number">
                  <Time at={created_at} />
                </td>
                <td>{created_by === null ? 'a file' : <HostileText text={created_by} max={60} />}</td>
              </tr>
            )
          })}
        </tbody>
      </table>
    </section>
  )
}
