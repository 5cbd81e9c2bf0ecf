import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { titleOf } from '@wardline/contract'
import { useState } from 'react'
import { type Match, matchesQuery, type RuleMatches } from '../data/rules.ts'
import { HostileText } from '../ui/hostile-text.tsx'
import { lazyDialog } from '../ui/lazy-dialog.tsx'
import { Fault, Panel } from '../ui/panel.tsx'
import { OperatorButton } from './operator-button.tsx'
import css from './rule-matches.module.css'

const ExceptDialog = lazyDialog(async () => (await import('./except-dialog.tsx')).ExceptDialog)

/** Characters shown before the part that matched. */
const before = 80

function MatchLine({ match: { field, value, start, end } }: { match: Match }) {
  const from = value === null || value.length <= 2 * before ? 0 : Math.max(0, start - before)
  return (
    <li>
      <span className="quiet mono">{field ?? 'any text'}</span>{' '}
      {value === null ? (
        <span className="quiet">not in the event</span>
      ) : (
        <span className="mono">
          {from > 0 && '…'}
          <HostileText text={value.slice(from)} marks={[{ start: start - from, end: end - from }]} />
        </span>
      )}
    </li>
  )
}

/** One rule that fired, and what its conditions matched of each event. */
function FiredRule({ fired, seq }: { fired: RuleMatches; seq: number }) {
  const { id, title, version, events } = fired
  const [isExcepting, setExcepting] = useState(false)
  return (
    <Panel
      level={3}
      title={
        <>
          Matched by{' '}
          <Link to="/rules/$id" params={{ id }}>
            <HostileText text={title} max={120} />
          </Link>
        </>
      }
      note={`v${version}`}
      end={<OperatorButton onClick={() => setExcepting(true)}>Except…</OperatorButton>}
    >
      {events.length === 0 && <p className="inner quiet">The events of this firing are deleted.</p>}
      {events.map(({ event, matches }) => (
        <div key={event.id} className={css.event}>
          {event.seq !== seq && (
            <Link to="/events" search={{ open: event.seq, rule: id }}>
              #{event.seq} <HostileText text={titleOf(event)} max={120} />
            </Link>
          )}
          {matches.length === 0 && <p className="quiet">No condition of the rule matches this event now.</p>}
          <ul aria-label={'What matched'}>
            {matches.map((match, index) => (
              <MatchLine key={index} match={match} />
            ))}
          </ul>
        </div>
      ))}
      {isExcepting && <ExceptDialog fired={fired} onClose={() => setExcepting(false)} />}
    </Panel>
  )
}

/** The rules that fired with an event, or whose firing it reports. Draws nothing without any. */
export function FiredRules({ seq, rule }: { seq: number; rule?: string | undefined }) {
  const { data, error } = useQuery(matchesQuery(seq, rule))
  return (
    <>
      <Fault of={error} />
      {data?.rules.map((fired) => (
        <FiredRule key={fired.id} fired={fired} seq={seq} />
      ))}
    </>
  )
}
