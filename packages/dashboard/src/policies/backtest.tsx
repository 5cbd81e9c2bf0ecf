import { Link } from '@tanstack/react-router'
import type { PolicyBacktest } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useEffect, useRef, useState } from 'react'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { AgentLink } from '../parts/agent-link.tsx'
import { Button } from '../ui/button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { EmptyState, Fault, Panel } from '../ui/panel.tsx'
import { spanText } from '../ui/span.ts'
import { DataTable } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'

/** Timeout: enough to read a week of a busy fleet. A person can abort earlier. */
const patienceMs = 10 * 60_000
/** Samples shown at first. */
const firstSamples = 8

/** What the policy would have done, in a sentence. */
function resultText({ data_from, to, calls, asked, denied, agents, asks_per_session }: PolicyBacktest): string {
  if (data_from === null || calls === 0) return 'There are no stored tool calls of these agents to look at.'
  const data = spanText(Date.parse(to) - Date.parse(data_from))
  if (asked + denied === 0) return `Would have allowed all ${counted(calls, 'call')} in ${data}.`
  return `Would have asked ${counted(asked, 'time')} and denied ${counted(denied, 'call')} on ${counted(agents, 'agent')} in ${data}: ${asks_per_session.toFixed(2)} asks a session.`
}

const ruleText = (rule: string | null) => rule ?? 'default of the policy'

function Result({ result, isOutdated }: { result: PolicyBacktest; isOutdated: boolean }) {
  const { calls, sessions, events_read, duration_ms, unjudged, without_arguments, evicted, rules, samples } = result
  return (
    <>
      <div className="inner">
        <p className="quiet">
          <Time at={result.from} /> to <Time at={result.to} />, {counted(calls, 'call')} of{' '}
          {counted(sessions, 'session')}, {counted(events_read, 'event')} in {(duration_ms / 1_000).toFixed(1)} s
          {isOutdated && <b className="warning"> · before your last changes</b>}
        </p>
        <p role="status">
          <b>{resultText(result)}</b>
        </p>
        {unjudged > 0 && (
          <p className="quiet">
            {counted(unjudged, 'more call')} may have been asked by the flow: whether the destination was known is
            stored only of agents that had a policy with a flow.
          </p>
        )}
        {without_arguments > 0 && (
          <p className="quiet">
            {counted(without_arguments, 'call')} stored without arguments: conditions on arguments cannot match them.
          </p>
        )}
        {evicted > 0 && (
          <p className="warning">
            {counted(evicted, 'session')} dropped because there were too many: limits and flows may differ.
          </p>
        )}
      </div>
      {rules.length > 0 && (
        <DataTable
          label="Decisions by rule"
          columns={[
            { name: 'Decision', kind: 'word', cell: ({ decision }) => decision },
            { name: 'Rule', cell: ({ rule }) => <HostileText text={ruleText(rule)} max={200} /> },
            { name: 'Calls', kind: 'number', cell: ({ count }) => count.toLocaleString('en') },
          ]}
          rows={rules}
          rowKey={({ rule, decision }) => `${decision} ${rule}`}
          isStacked={false}
        />
      )}
      {samples.length > 0 && (
        <DataTable
          label="Newest of these calls"
          columns={[
            { name: 'Time', kind: 'number', cell: ({ at }) => <Time at={at} /> },
            {
              name: 'Call',
              cell: ({ seq, tool, instance_id, rule }) => (
                <>
                  <Link to="/events" search={{ open: seq }}>
                    <HostileText text={tool} max={100} />
                  </Link>{' '}
                  {instance_id !== null && (
                    <span className="quiet">
                      of <AgentLink id={instance_id} />
                    </span>
                  )}
                  <div className="quiet">
                    <HostileText text={ruleText(rule)} max={120} />
                  </div>
                </>
              ),
            },
            { name: 'Decision', kind: 'word', cell: ({ decision }) => decision },
          ]}
          rows={samples}
          rowKey={({ seq }) => seq}
          maxRows={firstSamples}
        />
      )}
    </>
  )
}

/** Says what the editor's text would have done to the stored tool calls of seven days. Nothing is saved. */
export function Backtest({ text }: { text: string }) {
  const [done, setDone] = useState<{ result: PolicyBacktest; text: string }>()
  const stop = useRef<AbortController>(undefined)
  useEffect(() => () => stop.current?.abort(), [])
  const { isBusy, fault, run } = useChange({ changes: [] })
  const start = () =>
    run(async () => {
      setDone(undefined)
      stop.current = new AbortController()
      const signal = AbortSignal.any([stop.current.signal, AbortSignal.timeout(patienceMs)])
      setDone({ result: await call('backtestPolicy', { body: { policy: text }, signal }), text })
      return undefined
    })
  return (
    <Panel
      title="Backtest"
      end={
        isBusy ? (
          <Button onClick={() => stop.current?.abort()}>Stop</Button>
        ) : (
          <Button disabled={text.trim() === ''} onClick={() => void start()}>
            {done ? 'Run again' : 'Run'}
          </Button>
        )
      }
    >
      {isBusy && <EmptyState>Deciding on the calls of the last 7 days…</EmptyState>}
      <Fault of={fault && stop.current?.signal.aborted ? 'Backtest stopped.' : fault} isInPanel />
      {!isBusy && !fault && !done && (
        <EmptyState>
          Says what this text would have decided on the stored tool calls of the last 7 days. Nothing is saved.
        </EmptyState>
      )}
      {done && <Result result={done.result} isOutdated={done.text !== text} />}
    </Panel>
  )
}
