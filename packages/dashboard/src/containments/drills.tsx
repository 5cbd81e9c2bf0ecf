import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { type Drill, drillQuery, drillsQuery } from '../data/containments.ts'
import { fleetTagsQuery, summaryQuery } from '../data/fleet.ts'
import { queryKeys } from '../data/query-keys.ts'
import { AgentLinks } from '../parts/agent-link.tsx'
import { OperatorButton } from '../parts/operator-button.tsx'
import { msText } from '../suspend/stages.ts'
import { EmptyState, Fault, Panel } from '../ui/panel.tsx'
import { type Column, DataTable } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'
import { selectorText } from './containment-texts.ts'
import { drillSentence, missingWords, modelSentence, silentWords, supervisorSentence } from './drill-texts.ts'
import { TagChips } from './tag-chips.tsx'

function DrillReport({ id }: { id: string }) {
  const { data, error } = useQuery(drillQuery(id))
  if (!data) return error ? <Fault of={error} isInPanel /> : <EmptyState>Loading report…</EmptyState>
  const { selector, selected, missing, missing_count, supervisors, incomplete_count, silent, silent_count } = data
  const further = missing_count - missing.length + silent_count - silent.length
  const supervised = supervisorSentence(data)
  const model = modelSentence(data)
  const incomplete = supervisors.filter(({ unreachable }) => unreachable > 0)
  return (
    <section className="inner" aria-label="Report of the drill">
      <p role="status">
        <b>{drillSentence(data)}</b> <span className="quiet">{selectorText(selector, selected, data.tags_scope)}</span>
      </p>
      {supervised !== undefined && (
        <div className={incomplete_count > 0 ? 'warning' : ''}>
          {supervised}
          {selected > 1 && incomplete.length > 0 && (
            <AgentLinks ids={incomplete.map(({ instance_id }) => instance_id)} />
          )}
        </div>
      )}
      {model !== undefined && <p>{model}</p>}
      <ul className="stack">
        {Object.entries(silentWords)
          .map(([lever, words]) => [words, silent.filter((one) => one.lever === lever)] as const)
          .filter(([, levers]) => levers.length > 0)
          .map(([words, levers]) => (
            <li key={words(1)} className="warning">
              {words(levers.length)}
              <AgentLinks ids={levers.map(({ instance_id }) => instance_id)} />
            </li>
          ))}
        {Object.entries(missingWords)
          .map(([reason, words]) => [words, missing.filter((one) => one.reason === reason)] as const)
          .filter(([, agents]) => agents.length > 0)
          .map(([words, agents]) => (
            <li key={words}>
              {counted(agents.length, 'agent')}: {words}
              <AgentLinks ids={agents.map(({ instance_id }) => instance_id)} />
            </li>
          ))}
      </ul>
      {further > 0 && <p className="quiet">and {further.toLocaleString('en')} more</p>}
    </section>
  )
}

const columns: Column<Drill>[] = [
  {
    name: 'Started',
    cell: ({ id, requested_at }) => (
      <Link to="/containments" search={{ drill: id }} resetScroll={false}>
        <Time at={requested_at} />
      </Link>
    ),
  },
  { name: 'Agents', cell: ({ selector, selected, tags_scope }) => selectorText(selector, selected, tags_scope) },
  {
    name: 'Answered',
    cell: ({ answered, selected, missing_count, state }) => (
      <span className={missing_count > 0 ? 'warning' : ''}>
        {answered} of {selected}
        {state === 'running' ? ', running' : ''}
      </span>
    ),
  },
  { name: 'p50', cell: ({ p50_ms }) => msText(p50_ms), kind: 'number', isWide: true },
  { name: 'p99', cell: ({ p99_ms }) => msText(p99_ms), kind: 'number', isWide: true },
]

/** Starts drills, which check whether a suspension would reach the agents, and shows who responded. */
export function Drills({ open }: { open: string | undefined }) {
  const navigate = useNavigate()
  const { data: drills, error } = useQuery(drillsQuery)
  const { data: fleet } = useQuery(summaryQuery())
  const { data: known } = useQuery(fleetTagsQuery)
  const count = fleet?.state.counts.all ?? 0
  const { isBusy, fault, run } = useChange({ changes: [queryKeys.drillList] })
  const [tags, setTags] = useState<string[]>([])
  const start = () =>
    run(async () => {
      const { id } = await call('startDrill', { body: { selector: tags.length > 0 ? { tags } : { all: true } } })
      void navigate({ to: '/containments', search: { drill: id }, resetScroll: false })
      return undefined
    })
  return (
    <>
      <Panel title="Drills" note="A harmless message checks whether a suspension would reach the agents.">
        <div className="inner">
          <TagChips
            counts={known?.tags.map(({ tag, running, suspended }) => [tag, running + suspended] as const) ?? []}
            chosen={tags}
            onChoose={setTags}
          />
          <p>
            <OperatorButton disabled={isBusy || count === 0} onClick={() => void start()}>
              Run a drill on {tags.length > 0 ? selectorText({ tags }) : `every agent (${count.toLocaleString('en')})`}
            </OperatorButton>
          </p>
          <Fault of={fault} />
        </div>
        {open !== undefined && <DrillReport id={open} />}
      </Panel>
      <DataTable
        title="Manual drills"
        columns={columns}
        rows={drills}
        rowKey={({ id }) => id}
        at={drills?.findIndex(({ id }) => id === open) ?? -1}
        fault={error}
        empty="No manual drills yet. Each agent runs one automatically, once a day by default."
      />
    </>
  )
}
