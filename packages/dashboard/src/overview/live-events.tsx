import { useInfiniteQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { EventLine } from '../parts/event-rows.tsx'
import { TailFacts } from '../parts/tail-facts.tsx'
import { eventsQuery } from '../service/event-tail.ts'
import { type Row, tailOf } from '../service/live-tail.ts'
import { useKeys } from '../shell/keys.ts'

const maxShown = 10

/** The newest events. While paused, the list is fixed and shows how many events have arrived since. */
export function LiveEvents() {
  const { data } = useInfiniteQuery(eventsQuery({}))
  const rows = data?.pages[0]?.events ?? []
  const tail = tailOf({})
  const [frozen, setFrozen] = useState<{ rows: readonly Row[]; received: number }>()
  const toggle = () => setFrozen(frozen ? undefined : { rows, received: tail.received })
  useKeys({ p: toggle })
  return (
    <section className="panel" aria-labelledby="live-events">
      <header>
        <h2 id="live-events">Live events</h2>
        <TailFacts tail={tail} skipped={data?.pages[0]?.skipped} />
        <Link to="/events" className="quiet">
          Open events <kbd>g e</kbd>
        </Link>
        <span className="end">
          {frozen && (
            <span role="status" className="quiet">
              Paused · {(tail.received - frozen.received).toLocaleString('en')} new
            </span>
          )}
          <button type="button" onClick={toggle}>
            {frozen ? 'Continue' : 'Pause'} <kbd>p</kbd>
          </button>
        </span>
      </header>
      {data && rows.length === 0 && <p className="empty">No event was stored yet.</p>}
      <ul>
        {(frozen?.rows ?? rows).slice(0, maxShown).map((row) => (
          <li key={row.id} className="event-line">
            <EventLine row={row} />
          </li>
        ))}
      </ul>
    </section>
  )
}
