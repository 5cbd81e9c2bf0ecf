import { useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { type LeverKind, WardlineError } from '@wardline/contract'
import { type ReactNode, useEffect, useState } from 'react'
import { drillSentence, modelSentence, silentWords, supervisorSentence } from '../containments/drill-texts.ts'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { drillQuery } from '../data/containments.ts'
import { kindOf } from '../data/decoys.ts'
import { type Agent, type AgentDetail, agentQuery, refreshMs } from '../data/fleet.ts'
import { shownStatus } from '../data/fleet-counts.ts'
import { queryKeys } from '../data/query-keys.ts'
import { useMayOperate } from '../data/session.ts'
import { witnessNames } from '../data/witnesses.ts'
import { StatusMark } from '../parts/marks.tsx'
import { OperatorButton } from '../parts/operator-button.tsx'
import { Tags } from '../parts/tags.tsx'
import { ControlButton } from '../suspend/control-button.tsx'
import { Button } from '../ui/button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { lazyDialog } from '../ui/lazy-dialog.tsx'
import { Fault, Screen } from '../ui/panel.tsx'
import { spanText } from '../ui/span.ts'
import { type Column, DataTable } from '../ui/table.tsx'
import { Time, useNow } from '../ui/time.tsx'
import css from './agent.module.css'
import { Baselines } from './baselines.tsx'
import { Anomalies, Decisions, Events, Sessions } from './behaviour.tsx'
import { Configuration } from './configuration.tsx'
import { NoteRow } from './note.tsx'
import { Suspensions } from './suspensions.tsx'
import { TimelinePanel } from './timeline.tsx'

const TagDialog = lazyDialog(async () => (await import('../fleet/tag-dialog.tsx')).TagDialog)

const route = getRouteApi('/inside/fleet/$id')

const decoysQuery = (id: string) => ({
  queryKey: queryKeys.agentDecoys(id),
  queryFn: async () => (await call('listHoneypots', { query: { instance_id: id, include: 'details' } })).honeypots,
  refetchInterval: 6 * refreshMs,
})

/** What the agent reports about itself. */
function Reported({ detail }: { detail: AgentDetail }) {
  const now = useNow()
  const { name, version, agent_type, fail_mode, last_heartbeat, control } = detail
  const facts: ReactNode[] = [
    <HostileText key="name" text={name} max={80} />,
    version !== null && (
      <>
        version <HostileText text={version} max={60} />
      </>
    ),
    agent_type !== null && <HostileText text={agent_type} max={60} />,
    fail_mode === null ? 'fail mode unknown' : `fails ${fail_mode}`,
    `last heartbeat ${spanText(now - Date.parse(last_heartbeat))} ago`,
    control.applied_version === null ? 'never confirmed a control message' : 'confirms control messages',
    control.mismatch && (
      <span className="critical">reports control version {control.claimed_version}, which was never issued</span>
    ),
  ]
  return facts.filter(Boolean).map((fact, index) => (
    <span key={index}>
      {index > 0 && ' · '}
      {fact}
    </span>
  ))
}

/** An agent's tags, with a button to change those set by operators. */
function TagRow({ agent }: { agent: Agent }) {
  const mayOperate = useMayOperate()
  const [isOpen, setOpen] = useState(false)
  return (
    <div className={`chips ${css.row}`}>
      <Tags tags={agent.tags} />
      {mayOperate && (
        <Button kind="plain" onClick={() => setOpen(true)}>
          {agent.tags.length === 0 ? 'Add tags…' : 'Edit tags…'}
        </Button>
      )}
      {isOpen && <TagDialog agents={[agent]} onClose={() => setOpen(false)} />}
    </div>
  )
}

const leverNames: Record<LeverKind, string> = {
  process: 'its processes',
  model: 'its model calls',
  enforcement: 'enforcement points',
  control_stream: 'control stream',
  poll: 'poll',
}

/** What a suspension reaches now, with the last proof of each; without a lever outside, the agent has to obey. */
function LeversRow({ detail: { levers } }: { detail: AgentDetail }) {
  const isHeld = levers.some(({ kind }) => kind === 'process' || kind === 'model' || kind === 'enforcement')
  return (
    <div className={`${css.levers} ${css.row}`}>
      <span className="quiet">A suspension reaches:</span>
      {levers.map(({ kind, last_proven_at }) => (
        <span key={kind}>
          {leverNames[kind]}{' '}
          <span className="quiet">
            {last_proven_at === null ? (
              'not proven yet'
            ) : (
              <>
                proven <Time at={last_proven_at} />
              </>
            )}
          </span>
        </span>
      ))}
      {!isHeld && (
        <span className="warning">
          {levers.length > 0 ? 'This agent can only be asked to stop.' : 'Nothing: only its telemetry is heard.'}
        </span>
      )}
    </div>
  )
}

/** The agent that started this one, and those that it started. */
function FamilyRow({ detail: { id, parent_instance_id: parent, children } }: { detail: AgentDetail }) {
  if (parent === null && children === 0) return null
  return (
    <div className={`chips ${css.row}`}>
      {parent !== null && (
        <span>
          Child of{' '}
          <Link to="/fleet/$id" params={{ id: parent }}>
            {parent}
          </Link>
        </span>
      )}
      {children > 0 && (
        <Link to="/fleet" search={{ parent: id }}>
          Children: {children}
        </Link>
      )}
    </div>
  )
}

/** By what the agent is heard, and since when. */
function HeardRow({ detail: { witnesses, mismatches } }: { detail: AgentDetail }) {
  return (
    <div className={`${css.levers} ${css.row}`}>
      <span className="quiet">Heard by:</span>
      {witnesses.map(({ witness, since, last_at }) => (
        <span key={witness}>
          {witnessNames[witness]}{' '}
          <span className="quiet">
            since <Time at={since} />, last <Time at={last_at} />
          </span>
        </span>
      ))}
      {witnesses.length === 0 && <span className="quiet">nothing in the last 30 days</span>}
      {mismatches.map(({ missing, severity, since, calls, tools }) => (
        <span key={missing} className={severity}>
          {calls === 1 ? '1 call is' : `${calls} calls are`} missing from its{' '}
          {missing === 'client' ? 'hook or SDK' : witnessNames[missing]} since <Time at={since} />:{' '}
          <HostileText text={tools.join(', ')} max={80} />
        </span>
      ))}
    </div>
  )
}

/** Shows when the agent last proved that a suspension reaches it, with a button to start a drill now. */
function DrillRow({ detail: { id, last_proven_stoppable_at } }: { detail: AgentDetail }) {
  const client = useQueryClient()
  const { isBusy, fault, run } = useChange({ changes: [queryKeys.drillList] })
  const [started, setStarted] = useState<string>()
  const { data: drill } = useQuery({ ...drillQuery(started ?? ''), enabled: started !== undefined })
  const isOver = drill?.state === 'complete'
  useEffect(() => {
    if (isOver) void client.invalidateQueries({ queryKey: queryKeys.agent(id), exact: true })
  }, [isOver, client, id])
  const start = () =>
    run(async () => {
      setStarted((await call('startDrill', { body: { selector: { instances: [id] } } })).id)
      return undefined
    })
  return (
    <div className={`chips ${css.row}`}>
      <span className="quiet">
        Last proven stoppable: {last_proven_stoppable_at === null ? 'never' : <Time at={last_proven_stoppable_at} />}
      </span>
      <OperatorButton disabled={isBusy || (started !== undefined && !isOver)} onClick={() => void start()}>
        Run a drill
      </OperatorButton>
      <span
        role="status"
        className={drill?.missing_count || drill?.incomplete_count || drill?.silent_count ? 'warning' : ''}
      >
        {drill &&
          [
            drillSentence(drill),
            supervisorSentence(drill),
            modelSentence(drill),
            ...drill.silent.map(({ lever }) => `${silentWords[lever](1)}.`),
          ]
            .filter((sentence) => sentence !== undefined)
            .join(' ')}
      </span>
      <Fault of={fault} />
    </div>
  )
}

type Decoy = Awaited<ReturnType<ReturnType<typeof decoysQuery>['queryFn']>>[number]
const decoyColumns: Column<Decoy>[] = [
  {
    name: 'Label',
    cell: ({ id, details }) => (
      <Link to="/decoys" search={{ open: id }}>
        <HostileText text={details?.label || (details?.path ?? 'no label')} max={80} />
      </Link>
    ),
  },
  { name: 'Kind', kind: 'word', cell: kindOf },
  {
    name: 'Hits',
    kind: 'number',
    cell: ({ details }) => <span className={details?.hit_count ? 'breach' : ''}>{details?.hit_count ?? 0}</span>,
  },
  {
    name: 'Last hit',
    kind: 'number',
    cell: ({ details }) => (details?.last_hit_at ? <Time at={details.last_hit_at} /> : 'never'),
    isWide: true,
  },
]

function Decoys({ id }: { id: string }) {
  const { data, error } = useQuery(decoysQuery(id))
  const plant = (
    <>
      No decoys.{' '}
      <Link to="/decoys" search={{ plant: 'new', agent: id }}>
        Plant one
      </Link>
    </>
  )
  return (
    <div>
      <Fault of={error} />
      <DataTable
        title="Decoys"
        label="Decoys"
        end={
          <Link to="/events" search={{ instance_id: id, event_type: 'honeypot_triggered' }} className="quiet">
            Open hits in events
          </Link>
        }
        columns={decoyColumns}
        rows={data ?? []}
        rowKey={(decoy) => decoy.id}
        empty={data ? plant : 'Loading…'}
      />
    </div>
  )
}

export function AgentPage() {
  const { id } = route.useParams()
  const { hours = 1, metric } = route.useSearch()
  const navigate = route.useNavigate()
  const now = useNow()
  const { data: detail, error } = useQuery(agentQuery(id))
  if (!detail) {
    if (!error) return <Screen title={id} lead="Loading agent…" />
    const isUnknown = error instanceof WardlineError && error.status === 404
    return (
      <Screen title={isUnknown ? 'Agent not found' : id}>
        <Fault of={error} />
        <p>
          <Link to="/fleet">Open the fleet</Link>
        </p>
      </Screen>
    )
  }
  const agent: Agent = { ...detail, secondsAgo: Math.floor((now - Date.parse(detail.last_heartbeat)) / 1_000) }
  return (
    <Screen
      title={`${id} ${detail.status}`}
      heading={id}
      actions={
        <>
          <StatusMark status={shownStatus(detail)} />
          <ControlButton agent={agent} isKeyed />
        </>
      }
      lead={<Reported detail={detail} />}
    >
      <div>
        <NoteRow detail={detail} />
        <TagRow agent={agent} />
        <FamilyRow detail={detail} />
        <HeardRow detail={detail} />
        <LeversRow detail={detail} />
        <DrillRow detail={detail} />
      </div>
      <Suspensions detail={detail} />
      <TimelinePanel
        id={id}
        hours={hours}
        metric={metric}
        onChange={(change) => void navigate({ search: (before) => ({ ...before, ...change }), replace: true })}
      />
      <Baselines id={id} />
      <div className="halves">
        <Anomalies id={id} />
        <Decoys id={id} />
      </div>
      <Configuration id={id} />
      <Decisions id={id} />
      <Sessions id={id} />
      <Events id={id} hours={hours} />
    </Screen>
  )
}
