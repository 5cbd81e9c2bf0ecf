import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { eventTypes } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { Dialog } from '../parts/dialog.tsx'
import { HostileText } from '../parts/hostile-text.tsx'
import { Time, useNow } from '../parts/time.tsx'
import { call, sentenceOf } from '../service/client.ts'
import { type DecoyDetail, decoyQuery, decoysKey, kindOf } from '../service/decoys.ts'
import { PlantedDialog, RotateDialog, TestDialog } from './decoy-actions.tsx'
import { HitChart } from './hit-chart.tsx'

/** A hit and its event are stored together, but a clock adjustment may make their times differ. */
const slackMs = 60_000

/** Returns the seq of each hit's event, by event id. Retention removes events before their hits. */
function useEventSeqs({ id, hits }: Pick<DecoyDetail, 'id' | 'hits'>) {
  const times = hits.map(({ at }) => Date.parse(at))
  const [from, to] = [Math.min(...times) - slackMs, Math.max(...times) + slackMs]
  const { data } = useQuery({
    queryKey: [...decoysKey, id, 'events', from, to],
    queryFn: async ({ signal }) => {
      const range = { from: new Date(from).toISOString(), to: new Date(to).toISOString() }
      const query = { event_type: eventTypes.honeypotTriggered, severity: 'breach' as const, limit: '1000', ...range }
      const { events } = await call('listEvents', { query, signal })
      return new Map(events.map((event) => [event.id, event.seq]))
    },
    enabled: hits.length > 0,
  })
  return data
}

function Hits({ decoy }: { decoy: DecoyDetail }) {
  const seqs = useEventSeqs(decoy)
  return (
    <table className="list hits">
      <thead>
        <tr>
          <th>hit</th>
          <th>by</th>
          <th>
            <span className="only-read">event</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {decoy.hits.map(({ id, at, reporter, tool, ip_address, event_id, form, test, ignored, outside }) => {
          const marks = [form, ignored && 'ignored', outside && 'outside'].filter(Boolean).join(' · ')
          const seq = seqs?.get(event_id)
          return (
            <tr key={id}>
              <td>
                <Time at={at} />
              </td>
              <td>
                {test ? (
                  <span className="quiet">an operator, as a test</span>
                ) : reporter === null ? (
                  <span className="quiet">an agent that did not say which</span>
                ) : (
                  <Link to="/fleet/$id" params={{ id: reporter }}>
                    {reporter}
                  </Link>
                )}
                <span className="under">
                  {marks !== '' && `${marks} · `}
                  {tool === null ? 'tool not named' : <HostileText text={tool} max={60} />}
                  {ip_address !== null && (
                    <>
                      {' · from '}
                      <HostileText text={ip_address} max={45} />
                    </>
                  )}
                </span>
              </td>
              <td>
                {seq !== undefined ? (
                  <Link to="/events" search={{ severity: 'breach', open: seq }}>
                    Event
                  </Link>
                ) : (
                  seqs && !ignored && <span className="quiet">event not found</span>
                )}
              </td>
            </tr>
          )
        })}
      </tbody>
    </table>
  )
}

function DeleteDialog({ decoy, onDone, onClose }: { decoy: DecoyDetail; onDone(): void; onClose(): void }) {
  const client = useQueryClient()
  const [fault, setFault] = useState<string>()
  const [isBusy, setBusy] = useState(false)
  async function remove() {
    setBusy(true)
    try {
      await call('deleteHoneypot', { params: { id: decoy.id } })
      onDone()
      await client.invalidateQueries({ queryKey: decoysKey })
    } catch (problem) {
      setFault(sentenceOf(problem))
      setBusy(false)
    }
  }
  return (
    <Dialog label="Delete the decoy" onClose={onClose}>
      <h2>Delete this decoy?</h2>
      <p>
        From then on nobody who uses it is noticed: take it out of <b>{decoy.instanceId}</b> as well. Its{' '}
        {counted(decoy.hitCount, 'hit')} and their events stay.
      </p>
      <p role="alert" className="fault">
        {fault}
      </p>
      <div className="foot">
        <button type="button" data-first onClick={onClose}>
          Keep it <kbd>Esc</kbd>
        </button>
        <button type="button" className="act" disabled={isBusy} onClick={() => void remove()}>
          Delete the decoy
        </button>
      </div>
    </Dialog>
  )
}

function Facts({ decoy }: { decoy: DecoyDetail }) {
  const now = useNow()
  const { label, path, instanceId, createdAt, deletedAt, firstHitAt, hitCount, hits, state, planted, replacedBy } =
    decoy
  const real = hits.filter(({ test }) => !test)
  return (
    <>
      <h2>
        <HostileText text={label || (path ?? 'Decoy without a label')} max={200} />
      </h2>
      {deletedAt !== null && (
        <p className="notice">
          Deleted <Time at={deletedAt} />: it matches nothing any more.
        </p>
      )}
      <table>
        <tbody>
          <tr>
            <th scope="row">kind</th>
            <td>{kindOf(decoy)}</td>
          </tr>
          {path !== undefined && (
            <tr>
              <th scope="row">path</th>
              <td className="mono">
                <HostileText text={path} max={1_024} />
              </td>
            </tr>
          )}
          <tr>
            <th scope="row">state</th>
            <td className={state === 'tripped' ? 'breach' : ''}>
              {state}
              {decoy.leakedOutside && ', leaked outside: touched by another agent'}
              {replacedBy !== null && (
                <>
                  {', replaced by '}
                  <Link from="/decoys" search={(before) => ({ ...before, open: replacedBy })} replace>
                    its successor
                  </Link>
                </>
              )}
            </td>
          </tr>
          {planted !== null && (
            <tr>
              <th scope="row">noted</th>
              <td className="noted">
                <HostileText text={planted.note} max={500} />
                {planted.file !== null && (
                  <div className="mono">
                    <HostileText text={planted.file} max={1_024} />
                  </div>
                )}
                <div className="quiet">
                  by <HostileText text={planted.by} max={100} /> <Time at={planted.at} />
                </div>
              </td>
            </tr>
          )}
          <tr>
            <th scope="row">issued for</th>
            <td>
              <Link to="/fleet/$id" params={{ id: instanceId }}>
                {instanceId}
              </Link>{' '}
              <Time at={createdAt} />
            </td>
          </tr>
          <tr>
            <th scope="row">hits</th>
            <td className={hitCount > 0 ? 'breach' : ''}>
              {hitCount.toLocaleString('en')}
              {firstHitAt !== null && (
                <>
                  , the first <Time at={firstHitAt} />
                </>
              )}
            </td>
          </tr>
        </tbody>
      </table>
      {hits.length === 0 ? (
        <p className="quiet">Nobody touched it so far. The first hit shows here, and on the overview.</p>
      ) : (
        <section aria-label="Hits">
          {real.length < hitCount && (
            <p className="quiet">
              The latest {real.length} of {hitCount.toLocaleString('en')}; all are in{' '}
              <Link to="/events" search={{ event_type: eventTypes.honeypotTriggered }}>
                events
              </Link>
              .
            </p>
          )}
          {real.length > 0 && <HitChart decoy={{ ...decoy, hits: real }} now={now} />}
          <Hits decoy={decoy} />
        </section>
      )}
    </>
  )
}

/** One decoy with its hits. The drawer has an address that can be shared. */
export function DecoyDrawer({ id, mayDelete, onClose }: { id: string; mayDelete: boolean; onClose(): void }) {
  const { data: decoy, error } = useQuery(decoyQuery(id))
  const [isDeleting, setDeleting] = useState(false)
  const [action, setAction] = useState<'planted' | 'rotate' | 'test'>()
  const close = () => setAction(undefined)
  return (
    <Dialog label="Decoy" onClose={onClose} className="drawer">
      <div className="chips">
        <button type="button" onClick={onClose}>
          Close <kbd>Esc</kbd>
        </button>
        {mayDelete && decoy?.deletedAt === null && (
          <>
            <button type="button" onClick={() => setAction('planted')}>
              Note where…
            </button>
            {decoy.type === 'api_key' && decoy.retiredAt === null && (
              <button type="button" onClick={() => setAction('rotate')}>
                Rotate…
              </button>
            )}
            <button type="button" onClick={() => setAction('test')}>
              Test…
            </button>
            <button type="button" className="danger" onClick={() => setDeleting(true)}>
              Delete…
            </button>
          </>
        )}
      </div>
      <div className="facts">
        {error && !decoy && <p role="alert">{sentenceOf(error)}</p>}
        {decoy && <Facts decoy={decoy} />}
      </div>
      {action === 'planted' && decoy && <PlantedDialog decoy={decoy} onClose={close} />}
      {action === 'rotate' && decoy && <RotateDialog decoy={decoy} onClose={close} />}
      {action === 'test' && decoy && <TestDialog decoy={decoy} onClose={close} />}
      {isDeleting && decoy && <DeleteDialog decoy={decoy} onDone={onClose} onClose={() => setDeleting(false)} />}
    </Dialog>
  )
}
