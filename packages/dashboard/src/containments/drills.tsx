import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import type { ContainmentSelector } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { HostileText } from '../parts/hostile-text.tsx'
import '../parts/list.css'
import { Time } from '../parts/time.tsx'
import { call, sentenceOf } from '../service/client.ts'
import { drillQuery, drillsQuery } from '../service/containments.ts'
import { fleetQuery } from '../service/fleet.ts'
import { useMayOperate } from '../service/session.ts'
import { msText } from '../suspend/stages.ts'
import { selectorText } from './containment-texts.ts'
import { drillSentence, missingWords } from './drill-texts.ts'
import { tagCounts } from './members.ts'
import { TagChips } from './tag-chips.tsx'

/** Ordered: agents that were sent the drill come first, because a response was expected of them. */
const reasons = ['no_answer', 'not_sent', 'no_control_stream', 'does_not_understand', 'offline'] as const

function DrillReport({ id }: { id: string }) {
  const { data, error } = useQuery(drillQuery(id))
  if (!data) return <p className="inner">{error ? sentenceOf(error) : 'Reading the report…'}</p>
  return (
    <section className="inner" aria-label="Report of the drill">
      <p role="status">
        <b>{drillSentence(data)}</b> <span className="quiet">{selectorText(data.selector, data.selected)}</span>
      </p>
      <ul className="reasons">
        {reasons
          .map((reason) => [reason, data.missing.filter((one) => one.reason === reason)] as const)
          .filter(([, agents]) => agents.length > 0)
          .map(([reason, agents]) => (
            <li key={reason}>
              {counted(agents.length, 'agent')}: {missingWords[reason]}
              <span className="missing">
                {agents.map(({ instance_id }) => (
                  <Link key={instance_id} to="/fleet/$id" params={{ id: instance_id }}>
                    {instance_id}
                  </Link>
                ))}
              </span>
            </li>
          ))}
      </ul>
      {data.missing_count > data.missing.length && (
        <p className="quiet">and {(data.missing_count - data.missing.length).toLocaleString('en')} more</p>
      )}
    </section>
  )
}

/** Starts drills, which check whether a suspension would reach the agents, and shows who responded. */
export function Drills({ open }: { open: string | undefined }) {
  const client = useQueryClient()
  const navigate = useNavigate()
  const mayOperate = useMayOperate()
  const { data: drills = [], error } = useQuery(drillsQuery)
  const { data: fleet = [] } = useQuery(fleetQuery)
  const [tags, setTags] = useState<string[]>([])
  const start = useMutation({
    mutationFn: (selector: ContainmentSelector) => call('startDrill', { body: { selector } }),
    onSuccess: ({ id }) => {
      void client.invalidateQueries({ queryKey: ['drills', 'list'] })
      void navigate({ to: '/containments', search: { drill: id }, resetScroll: false })
    },
  })
  return (
    <section className="panel list-panel" aria-labelledby="drills">
      <header>
        <h2 id="drills">Drills</h2>
        <span className="quiet">
          a harmless message; it shows that a suspension would reach the agent, not that it would obey
        </span>
      </header>
      <form
        className="inner drill-form"
        onSubmit={(event) => {
          event.preventDefault()
          start.mutate(tags.length > 0 ? { tags } : { all: true })
        }}
      >
        <TagChips counts={tagCounts(fleet)} chosen={tags} onChoose={setTags} />
        <p>
          <button type="submit" disabled={!mayOperate || start.isPending || fleet.length === 0}>
            {tags.length > 0
              ? `Drill ${selectorText({ tags })}`
              : `Drill every agent (${fleet.length.toLocaleString('en')})`}
            {!mayOperate && <span className="only-read"> (needs a key of scope operator)</span>}
          </button>
        </p>
        {start.error && (
          <p role="alert" className="fault">
            <HostileText text={sentenceOf(start.error)} max={600} />
          </p>
        )}
      </form>
      {open !== undefined && <DrillReport id={open} />}
      {error && <p className="empty fault">{sentenceOf(error)}</p>}
      {drills.length > 0 && (
        <table className="list stack">
          <thead>
            <tr>
              <th>started</th>
              <th>agents</th>
              <th>answered</th>
              <th className="only-wide">p50</th>
              <th className="only-wide">p99</th>
            </tr>
          </thead>
          <tbody>
            {drills.map((drill) => (
              <tr key={drill.id} className={drill.id === open ? 'at' : ''}>
                <td>
                  <Link to="/containments" search={{ drill: drill.id }} resetScroll={false}>
                    <Time at={drill.requested_at} />
                  </Link>
                </td>
                <td>{selectorText(drill.selector, drill.selected)}</td>
                <td className={drill.missing_count > 0 ? 'warning' : ''}>
                  {drill.answered} of {drill.selected}
                  {drill.state === 'running' ? ', running' : ''}
                </td>
                <td className="only-wide number">{drill.p50_ms === null ? 'unknown' : msText(drill.p50_ms)}</td>
                <td className="only-wide number">{drill.p99_ms === null ? 'unknown' : msText(drill.p99_ms)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {drills.length === 0 && !error && (
        <p className="empty">None was started by hand. Each agent is asked by itself, once a day by default.</p>
      )}
    </section>
  )
}
