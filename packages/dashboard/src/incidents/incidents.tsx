import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { endpoints, type IncidentPreview, incidentLimits } from '@wardline/contract'
import { useEffect, useRef, useState } from 'react'
import { HostileText } from '../parts/hostile-text.tsx'
import { inputOf, instantOfInput } from '../parts/instant-input.ts'
import { Snippet } from '../parts/snippet.tsx'
import { dayMs, hourMs } from '../parts/span.ts'
import { Time, useZone } from '../parts/time.tsx'
import { RangeText } from '../parts/time-range.tsx'
import { call, sentenceOf } from '../service/client.ts'
import { fleetQuery } from '../service/fleet.ts'
import { download } from '../service/save-file.ts'
import { useHasScope } from '../service/session.ts'
import { useKeys } from '../shell/keys.ts'
import { useTitle } from '../shell/title.ts'
import '../parts/list.css'
import './incidents.css'
import type { IncidentSearch } from './search.ts'

const route = getRouteApi('/inside/incidents')

const spans = [
  { name: '1 h', ms: hourMs },
  { name: '24 h', ms: dayMs },
  { name: '7 days', ms: 7 * dayMs },
]

interface Range {
  agent: string
  from: string
  to: string
}

const queryOf = ({ agent, from, to }: Range) => ({ instance_id: agent, from, to })

/** Exports the evidence of an incident as a signed file: a preview, the file, and how to verify it. */
export function Incidents() {
  const isAdmin = useHasScope('admin')
  useTitle('Incidents')
  return isAdmin ? (
    <Bundles />
  ) : (
    <div className="rows">
      <h1>Incidents</h1>
      <p className="notice">A bundle needs a key of scope admin: it contains entries of the audit log.</p>
    </div>
  )
}

function Bundles() {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  // The default range is fixed while the page is open; otherwise each render would start a new query.
  const [openedAt] = useState(() => Date.now())
  const { agent, from = new Date(openedAt - dayMs).toISOString(), to = new Date(openedAt).toISOString() } = search
  const change = (next: IncidentSearch) =>
    void navigate({ search: (before) => ({ ...before, ...next }), replace: true })
  return (
    <div className="rows incidents">
      <h1>Incidents</h1>
      <p className="quiet lead">
        One signed file with everything that is stored about an agent in a range of time. It verifies without this
        service.
      </p>
      <RangeForm key={agent ?? ''} range={{ agent: agent ?? '', from, to }} onChange={change} />
      {agent === undefined ? (
        <p className="notice">
          Choose an agent. Its page, and that of a containment, lead here with the range filled in.
        </p>
      ) : (
        <Bundle range={{ agent, from, to }} />
      )}
      <Verification agent={agent ?? '<agent>'} />
      <Past />
    </div>
  )
}

function RangeForm({ range, onChange }: { range: Range; onChange(next: IncidentSearch): void }) {
  const zone = useZone()
  const [agent, setAgent] = useState(range.agent)
  const field = useRef<HTMLInputElement>(null)
  const { data: fleet = [] } = useQuery(fleetQuery)
  useKeys({ '/': () => field.current?.focus() })
  const apply = () => {
    if (agent.trim() !== range.agent) onChange({ agent: agent.trim() || undefined })
  }
  return (
    <form
      className="chips incident-form"
      onSubmit={(event) => {
        event.preventDefault()
        apply()
      }}
    >
      <label>
        Agent
        <input
          ref={field}
          placeholder="id"
          list="incident-agents"
          maxLength={64}
          value={agent}
          onChange={(event) => setAgent(event.target.value)}
          onBlur={apply}
        />
      </label>
      <datalist id="incident-agents">
        {fleet.slice(0, 500).map(({ id }) => (
          <option key={id} value={id} />
        ))}
      </datalist>
      {(['from', 'to'] as const).map((name) => (
        <label key={name}>
          {name === 'from' ? 'From' : 'Before'}, {zone === 'utc' ? 'UTC' : 'local time'}
          <input
            type="datetime-local"
            value={inputOf(range[name], zone)}
            onChange={({ target }) => onChange({ [name]: instantOfInput(target.value, zone) })}
          />
        </label>
      ))}
      {spans.map(({ name, ms }) => (
        <button
          key={name}
          type="button"
          className="chip"
          onClick={() => {
            const now = Date.now()
            onChange({ from: new Date(now - ms).toISOString(), to: new Date(now).toISOString() })
          }}
        >
          {name}
        </button>
      ))}
      <button type="submit" className="only-read">
        Apply
      </button>
    </form>
  )
}

const names: Record<keyof IncidentPreview['counts'], string> = {
  events: 'events',
  decoy_hits: 'decoy hits',
  control_changes: 'suspensions and resumes',
  suspensions: 'suspensions with stages',
  rule_firings: 'rule firings',
  audit: 'audit entries',
}

/** Counts are not continued above these limits, so they are shown as lower bounds. */
const bounds: Partial<Record<keyof IncidentPreview['counts'], number>> = {
  events: incidentLimits.countedEvents,
  control_changes: incidentLimits.timelineRows,
}

const kinds: Record<IncidentPreview['timeline'][number]['kind'], string> = {
  decoy_hit: 'decoy hit',
  control_change: 'control',
  rule_firing: 'rule',
  suspension_stage: 'suspension',
}

function Bundle({ range }: { range: Range }) {
  const { data, error } = useQuery({
    queryKey: ['incident', range],
    queryFn: ({ signal }) => call('previewIncident', { query: queryOf(range), signal }),
  })
  if (error) {
    return (
      <p role="alert" className="fault">
        {sentenceOf(error)}
      </p>
    )
  }
  if (!data) return <p className="quiet">Counting…</p>
  const address = `${endpoints.exportIncident.path}?${new URLSearchParams(queryOf(range))}`
  return (
    <>
      <section className="panel" aria-labelledby="contents">
        <header>
          <h2 id="contents">The bundle contains</h2>
          <span className="quiet">
            <RangeText from={data.from} to={data.to} />
          </span>
        </header>
        <dl className="incident-counts">
          {Object.entries(names).map(([kind, name]) => {
            const count = data.counts[kind as keyof typeof names]
            return (
              <div key={kind}>
                <dt>{name}</dt>
                <dd>
                  {count >= (bounds[kind as keyof typeof names] ?? Number.POSITIVE_INFINITY) && 'at least '}
                  {count.toLocaleString('en')}
                </dd>
              </div>
            )
          })}
        </dl>
        <p className="incident-take">
          <DownloadButton address={address} />
          <span className="quiet">
            With heartbeats, rule texts and names of keys; no key, no decoy. The download is in the audit log.
          </span>
        </p>
      </section>
      <section className="panel" aria-labelledby="incident-timeline">
        <header>
          <h2 id="incident-timeline">Timeline</h2>
          <span className="quiet">oldest first</span>
          <span className="end">
            <Link to="/events" search={{ instance_id: range.agent, from: range.from, to: range.to }} className="quiet">
              Open in events
            </Link>
          </span>
        </header>
        {data.timeline.length === 0 && <p className="empty">No suspension, decoy hit or rule firing in this range.</p>}
        <ol>
          {data.timeline.map(({ at, kind, text }, index) => (
            <li key={index} className="incident-line">
              <Time at={at} />
              <span className="kind">{kinds[kind]}</span>
              <span>
                <HostileText text={text} />
              </span>
            </li>
          ))}
        </ol>
      </section>
    </>
  )
}

function DownloadButton({ address }: { address: string }) {
  const [state, setState] = useState<'idle' | 'busy' | { fault: string }>('idle')
  const stop = useRef(new AbortController())
  useEffect(() => {
    const controller = new AbortController()
    stop.current = controller
    return () => controller.abort()
  }, [])
  async function start() {
    setState('busy')
    try {
      await download(address, stop.current.signal)
      setState('idle')
    } catch (problem) {
      setState({ fault: sentenceOf(problem) })
    }
  }
  return (
    <>
      <button type="button" className="go" disabled={state === 'busy'} onClick={() => void start()}>
        {state === 'busy' ? 'Preparing the bundle…' : 'Download the bundle'}
      </button>
      {typeof state === 'object' && (
        <span role="alert" className="fault">
          {state.fault}
        </span>
      )}
    </>
  )
}

function Verification({ agent }: { agent: string }) {
  const { origin } = location
  return (
    <section className="panel" aria-labelledby="incident-verify">
      <header>
        <h2 id="incident-verify">Verify a bundle</h2>
      </header>
      <div className="incident-verify">
        <p>
          Names the first file and block that was altered. Keep a copy of{' '}
          <a href={endpoints.getControlKeys.path}>the public keys</a> with your bundles: with it the command needs no
          service.
        </p>
        <Snippet label="Verify" text={`wardline incident verify incident.tar.gz --keys ${origin}`} />
        <Snippet
          label="Export from a terminal"
          text={`wardline incident export ${agent} --since 24h --url ${origin}`}
        />
      </div>
    </section>
  )
}

function Past() {
  const { data, error } = useQuery({
    queryKey: ['incident exports'],
    queryFn: ({ signal }) =>
      call('listAudit', { query: { action: 'incident.export', order: 'newest', limit: '20' }, signal }),
  })
  return (
    <section className="panel list-panel" aria-labelledby="incident-past">
      <header>
        <h2 id="incident-past">Past exports</h2>
        <span className="quiet">of the audit log, newest first</span>
        <span className="end">
          <Link to="/audit" search={{ action: 'incident.*' }} className="quiet">
            Open in audit
          </Link>
        </span>
      </header>
      {error && <p className="empty fault">{sentenceOf(error)}</p>}
      {data?.entries.length === 0 && <p className="empty">None yet.</p>}
      {data && data.entries.length > 0 && (
        <table className="list">
          <thead>
            <tr>
              <th>When</th>
              <th>Agent</th>
              <th className="only-wide">Range</th>
              <th>By</th>
            </tr>
          </thead>
          <tbody>
            {data.entries.map(({ seq, at, after, actor, actor_name }) => {
              const {
                instance_id = '',
                from,
                to,
              } = (after ?? {}) as { instance_id?: string; from?: string; to?: string }
              return (
                <tr key={seq}>
                  <td>
                    <Time at={at} />
                  </td>
                  <td>
                    <Link to="/incidents" search={{ agent: instance_id, from, to }}>
                      <HostileText text={instance_id} line />
                    </Link>
                  </td>
                  <td className="only-wide">
                    <RangeText {...(from === undefined ? {} : { from })} {...(to === undefined ? {} : { to })} />
                  </td>
                  <td>
                    <HostileText text={actor_name ?? actor} max={60} />
                  </td>
                </tr>
              )
            })}
          </tbody>
        </table>
      )}
    </section>
  )
}
