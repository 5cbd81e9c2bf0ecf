import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { useEvents } from '../data/event-tail.ts'
import { type Row, tailOf } from '../data/live-tail.ts'
import { EventLine } from '../parts/event-rows.tsx'
import { TailFacts } from '../parts/tail-facts.tsx'
import { Button } from '../ui/button.tsx'
import { EmptyState, Panel } from '../ui/panel.tsx'
import { useKeys } from '../ui/shortcuts.ts'

const maxShown = 10

/** The newest events. While paused, the list is fixed and shows how many events have arrived since. */
export function LiveEvents() {
  const { query, rows } = useEvents({})
  const tail = tailOf({})
  const [frozen, setFrozen] = useState<{ rows: readonly Row[]; received: number }>()
  const toggle = () => setFrozen(frozen ? undefined : { rows, received: tail.received })
  useKeys({ p: toggle })
  return (
    <Panel
      title="Live events"
      header={
        <>
          <TailFacts tail={tail} skipped={query.data?.pages[0]?.skipped} />
          <Link to="/events" className="quiet">
            Open events <kbd>g e</kbd>
          </Link>
        </>
      }
      end={
        <>
          {frozen && (
            <span role="status" className="quiet">
              Paused · {(tail.received - frozen.received).toLocaleString('en')} new
            </span>
          )}
          <Button onClick={toggle} shortcut="p">
            {frozen ? 'Continue' : 'Pause'}
          </Button>
        </>
      }
    >
      {query.data && rows.length === 0 && <EmptyState>No events yet.</EmptyState>}
      <ul>
        {(frozen?.rows ?? rows).slice(0, maxShown).map((row) => (
          <li key={row.id} className="row event-line">
            <EventLine row={row} />
          </li>
        ))}
      </ul>
    </Panel>
  )
}
