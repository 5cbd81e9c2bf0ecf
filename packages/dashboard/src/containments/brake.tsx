import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { limits } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { type FormEvent, useState } from 'react'
import { Dialog } from '../parts/dialog.tsx'
import { HostileText } from '../parts/hostile-text.tsx'
import '../parts/list.css'
import { Time } from '../parts/time.tsx'
import { call, sentenceOf } from '../service/client.ts'
import { brakeQuery } from '../service/containments.ts'
import { refreshMs } from '../service/fleet.ts'
import { useMayOperate } from '../service/session.ts'

function ReleaseDialog({ onClose }: { onClose(): void }) {
  const client = useQueryClient()
  const [reason, setReason] = useState('')
  const release = useMutation({
    mutationFn: () => call('changeBrake', { body: { action: 'release', reason: reason.trim() } }),
    onSuccess: onClose,
    // Also after a failure, because another operator may have been faster.
    onSettled: () => client.invalidateQueries({ queryKey: brakeQuery.queryKey }),
  })
  function submit(event: FormEvent) {
    event.preventDefault()
    if (reason.trim() !== '') release.mutate()
  }
  return (
    <Dialog label="Release the brake" onClose={onClose}>
      <form onSubmit={submit}>
        <h2>Release the brake</h2>
        <p>
          Agents are then suspended automatically again. Those that it left running are not suspended by that: suspend
          them yourself if they should not run.
        </p>
        <label className="field">
          <span>Reason</span>
          <textarea
            data-first
            rows={2}
            required
            maxLength={limits.reason}
            value={reason}
            onChange={({ target }) => setReason(target.value)}
          />
        </label>
        {release.error && (
          <p role="alert" className="fault">
            <HostileText text={sentenceOf(release.error)} max={600} />
          </p>
        )}
        <div className="foot">
          <button type="button" onClick={onClose}>
            Cancel <kbd>Esc</kbd>
          </button>
          <button type="submit" className="go" disabled={reason.trim() === '' || release.isPending}>
            Release the brake
          </button>
        </div>
      </form>
    </Dialog>
  )
}

/** The brake of automatic suspensions: its state, the event that engaged it, and the agents that it left running. */
export function Brake() {
  const mayOperate = useMayOperate()
  const [isOpen, setOpen] = useState(false)
  const { data, error } = useQuery({ ...brakeQuery, refetchInterval: refreshMs })
  return (
    <section className="panel list-panel" aria-labelledby="brake">
      <header>
        <h2 id="brake" className={data?.engaged ? 'critical' : ''}>
          {data?.engaged
            ? 'The brake is engaged: nothing is suspended automatically'
            : 'Brake of automatic suspensions'}
        </h2>
        {data?.engaged && (
          <span className="end">
            <button
              type="button"
              disabled={!mayOperate}
              title={mayOperate ? undefined : 'Needs a key of scope operator'}
              onClick={() => setOpen(true)}
            >
              Release…
            </button>
          </span>
        )}
      </header>
      {error && <p className="empty fault">{sentenceOf(error)}</p>}
      {data && (
        <div className="inner">
          {data.engaged ? (
            <p>
              {data.engaged_at !== null && (
                <>
                  Since <Time at={data.engaged_at} />
                </>
              )}
              {data.engaged_by_event !== null && <>, by event {data.engaged_by_event}</>}.{' '}
              {counted(data.refused, 'automatic suspension')} refused since. It is never released by itself.
            </p>
          ) : (
            <p>Not engaged.</p>
          )}
          <p className="quiet">
            {data.last_minute} of {data.limits.per_minute} in the last minute; {data.suspended} of{' '}
            {data.limits.fleet_max} at a time ({data.limits.fleet_percent} % of {counted(data.limits.fleet, 'agent')}).
          </p>
        </div>
      )}
      {data && data.refused_instances.length > 0 && (
        <table className="list">
          <thead>
            <tr>
              <th>not suspended</th>
              <th>times</th>
              <th>last</th>
              <th className="only-wide">event</th>
            </tr>
          </thead>
          <tbody>
            {data.refused_instances.map(({ instance_id, count, event_id, at }) => (
              <tr key={instance_id}>
                <td>
                  <Link to="/fleet/$id" params={{ id: instance_id }}>
                    {instance_id}
                  </Link>
                </td>
                <td>{count}</td>
                <td>
                  <Time at={at} />
                </td>
                <td className="only-wide mono">{event_id}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {isOpen && <ReleaseDialog onClose={() => setOpen(false)} />}
    </section>
  )
}
