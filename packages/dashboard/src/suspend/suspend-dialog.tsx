import { useQuery } from '@tanstack/react-query'
import { counted } from '@wardline/text/counted'
import { type FormEvent, useRef, useState } from 'react'
import { Dialog } from '../parts/dialog.tsx'
import { HostileText } from '../parts/hostile-text.tsx'
import { millisecondText, useNow, useZone } from '../parts/time.tsx'
import { type Agent, agentQuery } from '../service/fleet.ts'
import { useControlRuns } from './control-runs.ts'
import { reachOf } from './reach.ts'
import { StageRow } from './stage-row.tsx'
import { runsSentence, stagesOfRun } from './stages.ts'

const reasons = ['Unusual traffic', 'Decoy touched', 'Wrong output', 'Maintenance']
const maxReason = 500
/** Stages of so many agents are shown row by row; of more, only the sentence and those that failed. */
const maxShown = 12

interface ControlDialogProps {
  agents: readonly Agent[]
  /** What led here, as the first words of the reason. */
  because?: string
  onClose(): void
}

const nameOf = (agents: readonly Agent[]) => (agents.length === 1 ? agents[0]!.id : counted(agents.length, 'agent'))

function ReachList({ id }: { id: string }) {
  const { data } = useQuery(agentQuery(id))
  if (!data) return <p className="quiet">Reading what the agent said of itself…</p>
  return (
    <ul className="reach" aria-label="What this reaches">
      {reachOf(data).map(({ what, how, isReached }) => (
        <li key={what}>
          <span className={isReached ? 'ok' : 'warning'} aria-hidden="true">
            {isReached ? '✓' : '▲'}
          </span>
          <span>
            <span className="only-read">{isReached ? 'Reached: ' : 'Not reached: '}</span>
            {what}
          </span>
          <span className="quiet">{how}</span>
        </li>
      ))}
    </ul>
  )
}

function FleetReach({ agents }: { agents: readonly Agent[] }) {
  const offline = agents.filter(({ status }) => status === 'offline').length
  return (
    <ul className="reach" aria-label="What this reaches">
      <li>
        <span className="ok" aria-hidden="true">
          ✓
        </span>
        <span>New tool calls and tasks that their SDKs guard</span>
        <span className="quiet">each agent confirms for itself: a part may stop later, or not at all</span>
      </li>
      {offline > 0 && (
        <li>
          <span className="warning" aria-hidden="true">
            ▲
          </span>
          <span>{counted(offline, 'agent')} offline</span>
          <span className="quiet">the stop is stored, and applies when they ask again</span>
        </li>
      )}
      <li>
        <span className="warning" aria-hidden="true">
          ▲
        </span>
        <span>Commands that are running already</span>
        <span className="quiet">not reached: end them on their hosts</span>
      </li>
    </ul>
  )
}

function Progress({
  action,
  agents,
  runs,
}: Pick<ControlDialogProps, 'agents'> & {
  action: 'suspend' | 'resume'
  runs: ReturnType<typeof useControlRuns>['runs'] & {}
}) {
  const now = useNow()
  const zone = useZone()
  const all = [...runs.values()]
  const failed = agents.filter(({ id }) => runs.get(id)?.fault !== undefined)
  const shown = agents.length <= maxShown ? agents : failed.slice(0, maxShown)
  return (
    <>
      <p role="alert" className="outcome">
        {runsSentence(action, all, agents.length)}
      </p>
      {shown.map(({ id }) => {
        const run = runs.get(id)
        return (
          <section key={id} className="run">
            {agents.length > 1 && <b>{id}</b>}
            {run?.fault && (
              <p className="fault">
                <HostileText text={run.fault} />
              </p>
            )}
            {run && <StageRow stages={stagesOfRun(run, now, millisecondText(zone, run.requestedAt))} />}
          </section>
        )
      })}
    </>
  )
}

/** Asks once for the reason, says what a stop reaches and what not, then shows each stage as it happens. */
export function SuspendDialog({ agents, because = '', onClose }: ControlDialogProps) {
  const targets = useRef(agents.filter(({ status }) => status !== 'suspended')).current
  const skipped = agents.length - targets.length
  const { runs, start } = useControlRuns('suspend')
  const [reason, setReason] = useState(because)
  const form = useRef<HTMLFormElement>(null)
  const ids = targets.map(({ id }) => id)

  function submit(event: FormEvent) {
    event.preventDefault()
    void start(ids, reason.trim())
  }
  return (
    <Dialog label={`Suspend ${nameOf(targets)}`} onClose={onClose}>
      <form ref={form} onSubmit={submit}>
        <h2>Suspend {nameOf(targets)}</h2>
        {skipped > 0 && <p className="quiet">{counted(skipped, 'agent')} of the selection already suspended.</p>}
        {runs ? (
          <Progress action="suspend" agents={targets} runs={runs} />
        ) : (
          <>
            {targets.length === 1 ? <ReachList id={ids[0]!} /> : <FleetReach agents={targets} />}
            <div className="chips">
              {reasons.map((text) => (
                <button
                  key={text}
                  type="button"
                  className="chip"
                  aria-pressed={reason.startsWith(text)}
                  onClick={() => setReason(`${text}: `)}
                >
                  {text}
                </button>
              ))}
            </div>
            <label className="reason">
              <span className="only-read">Reason</span>
              <textarea
                data-first
                rows={3}
                required
                maxLength={maxReason}
                placeholder="Reason: everybody who looks at the agent reads it"
                value={reason}
                onChange={(event) => setReason(event.target.value)}
                onKeyDown={(event) => {
                  if (event.key === 'Enter' && (event.metaKey || event.ctrlKey)) form.current?.requestSubmit()
                }}
              />
            </label>
          </>
        )}
        <div className="foot">
          <button type="button" onClick={onClose}>
            {runs ? 'Close' : 'Cancel'} <kbd>Esc</kbd>
          </button>
          {!runs && (
            <button type="submit" className="act" disabled={reason.trim() === '' || targets.length === 0}>
              Suspend {nameOf(targets)} <kbd>⌘↵</kbd>
            </button>
          )}
        </div>
      </form>
    </Dialog>
  )
}

export function ResumeDialog({ agents, onClose }: ControlDialogProps) {
  const targets = useRef(agents.filter(({ status }) => status === 'suspended')).current
  const { runs, start } = useControlRuns('resume')
  const reasonsOf = [...new Set(targets.map(({ suspension_reason }) => suspension_reason ?? ''))]
  return (
    <Dialog label={`Resume ${nameOf(targets)}`} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          void start(
            targets.map(({ id }) => id),
            '',
          )
        }}
      >
        <h2>Resume {nameOf(targets)}</h2>
        {runs ? (
          <Progress action="resume" agents={targets} runs={runs} />
        ) : (
          <>
            <p>Suspended because of:</p>
            <ul className="why">
              {reasonsOf.slice(0, 5).map((text) => (
                <li key={text}>
                  <HostileText text={text} />
                </li>
              ))}
              {reasonsOf.length > 5 && <li className="quiet">and {counted(reasonsOf.length - 5, 'other reason')}</li>}
            </ul>
            <p className="quiet">
              From then on {targets.length === 1 ? 'it takes' : 'they take'} new work. Is the cause gone?
            </p>
          </>
        )}
        <div className="foot">
          <button type="button" onClick={onClose}>
            {runs ? 'Close' : 'Cancel'} <kbd>Esc</kbd>
          </button>
          {!runs && (
            <button type="submit" className="go" disabled={targets.length === 0}>
              Resume {nameOf(targets)}
            </button>
          )}
        </div>
      </form>
    </Dialog>
  )
}
