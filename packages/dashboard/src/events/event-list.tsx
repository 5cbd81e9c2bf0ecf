import { Link } from '@tanstack/react-router'
import { counted } from '@wardline/text/counted'
import { useLiveState } from '../data/live.ts'
import { maxRows } from '../data/live-tail.ts'
import { EventLine } from '../parts/event-rows.tsx'
import { TailFacts } from '../parts/tail-facts.tsx'
import { Button } from '../ui/button.tsx'
import { CopyButton } from '../ui/copy-button.tsx'
import { EmptyState, Panel } from '../ui/panel.tsx'
import { Time, useNow } from '../ui/time.tsx'
import { VirtualRows } from '../ui/virtual-rows.tsx'
import { asCurl } from './copy.ts'
import css from './events.module.css'
import type { EventsState } from './use-events.ts'

const rowHeight = () => (matchMedia('(max-width: 720px)').matches ? 78 : 30)

/** The events, newest first. New ones appear at the top unless the list is paused. */
export function EventList(state: EventsState) {
  const { filter, shown, lines, tail, isPaused, isFull, at, scroller, pause } = state
  const { phase } = useLiveState()
  const now = useNow()
  const isOver = filter.to !== undefined && Date.parse(filter.to) <= now
  const paused = isPaused && `Paused · ${(tail.received - shown.received).toLocaleString('en')} new`
  return (
    <Panel
      label="Events, newest first"
      header={
        <>
          <span role="status" className="quiet">
            {isOver ? 'Past range, no new events' : paused || (phase === 'live' ? 'Live' : 'Not live')}
          </span>
          {!isOver && <TailFacts tail={tail} skipped={shown.skipped} onShowAll={() => void state.showAll()} />}
          {isFull && (
            <span className="quiet">newest {maxRows.toLocaleString('en')} shown, load older ones at the end</span>
          )}
        </>
      }
      end={
        <>
          <CopyButton name="Copy as curl" text={asCurl(filter)} />
          {!isOver && (
            <Button shortcut="p" onClick={pause}>
              {isPaused ? 'Continue' : 'Pause'}
            </Button>
          )}
        </>
      }
    >
      <div
        ref={scroller}
        className="tail"
        onScroll={state.holdWhileReading}
        tabIndex={0}
        role="group"
        aria-label="List of events"
      >
        <VirtualRows
          scroller={scroller}
          count={lines.length}
          heightOf={rowHeight}
          keyOf={(index) => lines[index]?.key ?? index}
          at={at}
          role="list"
          row={(index, style) => (
            <div role="listitem" key={lines[index]?.key ?? index} style={style}>
              <Line {...state} index={index} />
            </div>
          )}
        />
        <ListEnd {...state} />
      </div>
    </Panel>
  )
}

function Line({ lines, at, setAt, open, showMissing, index }: EventsState & { index: number }) {
  const line = lines[index]
  const isAt = index === at
  if (!line) return null
  if (line.kind === 'gap')
    return (
      <p className={`row ${css.gap} ${isAt ? 'at' : ''}`}>
        {counted(line.count, 'event')} not shown
        <Button kind="plain" onClick={() => showMissing(line)}>
          Show
        </Button>
      </p>
    )
  return (
    // The kit's button is for actions; this one is a row.
    <button
      type="button"
      className={`row event-line ${isAt ? 'at' : ''}`}
      disabled={line.row.seq === null}
      onClick={() => {
        setAt(index)
        open(line.row.seq)
      }}
    >
      <EventLine row={line.row} />
    </button>
  )
}

function ListEnd({ shown, list, scannedTo, loadOlder }: EventsState) {
  const isLoading = list.isFetchingNextPage
  const older = list.hasNextPage && (
    <Button disabled={isLoading} onClick={() => void loadOlder()}>
      {isLoading ? 'Loading…' : scannedTo ? 'Search older events' : 'Load older events'}
    </Button>
  )
  return (
    <>
      {list.data && shown.rows.length === 0 && (
        <EmptyState>
          {scannedTo === undefined ? 'No matching events. ' : 'No matches yet. '}
          <Link to="/connect" search={{ simulate: true }}>
            Simulate an attack
          </Link>{' '}
          or <Link to="/connect">connect an agent</Link>.
        </EmptyState>
      )}
      {scannedTo !== undefined ? (
        <EmptyState action={older}>
          <span role="status">
            Searched back to <Time at={scannedTo} />. Older events are not searched yet.
          </span>
        </EmptyState>
      ) : (
        older && <EmptyState>{older}</EmptyState>
      )}
    </>
  )
}
