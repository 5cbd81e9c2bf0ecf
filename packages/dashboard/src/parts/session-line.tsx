import { Link } from '@tanstack/react-router'
import { counted } from '@wardline/text/counted'
import type { ReactNode } from 'react'
import { HostileText } from '../ui/hostile-text.tsx'
import { Time } from '../ui/time.tsx'
import { EventTitle } from './agent-id.tsx'
import { SeverityMark } from './marks.tsx'
import css from './session-line.module.css'
import type { SessionFacts } from './sessions.ts'

/** Above this many tools, show only a count. */
const maxTools = 4

const Step = ({ name, children }: { name: string; children: ReactNode }) => (
  <li>
    <span className="quiet">{name}</span>
    {children}
  </li>
)

/** One session in three steps. Steps without reports say so. */
export function SessionLine({ session, isAlone = false }: { session: SessionFacts; isAlone?: boolean }) {
  const { id, from, to, events, inputs, calls, blocked, worst, last } = session
  const [input] = inputs
  const name = <HostileText text={id} line max={80} />
  const total = calls.reduce((sum, [, count]) => sum + count, 0)
  return (
    <div className={css.session}>
      <p className="cut">
        {isAlone ? (
          <b className="mono">{name}</b>
        ) : (
          <Link to="/events" search={{ session_id: id }} className="mono">
            {name}
          </Link>
        )}
        <span className="quiet">
          <Time at={from} /> to <Time at={to} /> · {counted(events, 'event')}
        </span>
      </p>
      <ol>
        <Step name="Inputs">
          {input ? (
            <>
              <HostileText text={input.description} max={160} />
              {inputs.length > 1 && <span className="quiet">and {inputs.length - 1} more</span>}
            </>
          ) : (
            <span className="quiet">not reported</span>
          )}
        </Step>
        <Step name="Calls">
          {total === 0 ? (
            <span className="quiet">none</span>
          ) : (
            <span>
              {calls.slice(0, maxTools).map(([tool, count], index) => (
                <span key={tool}>
                  {index > 0 && ', '}
                  <HostileText text={tool} max={40} /> {count.toLocaleString('en')}
                </span>
              ))}
              {calls.length > maxTools && ` and ${counted(calls.length - maxTools, 'other tool')}`}
            </span>
          )}
        </Step>
        <Step name="Outcome">
          <span>
            {worst ? <SeverityMark severity={worst.severity} /> : 'no warnings; last event:'}{' '}
            <EventTitle of={worst ?? last} />
          </span>
          {blocked > 0 && <span className="quiet">{blocked.toLocaleString('en')} blocked</span>}
        </Step>
      </ol>
    </div>
  )
}
