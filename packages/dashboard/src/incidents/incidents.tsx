import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { endpoints, type IncidentPreview, incidentLimits } from '@wardline/contract'
import { useRef, useState } from 'react'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { foundAgentsQuery } from '../data/fleet.ts'
import { queryKeys } from '../data/query-keys.ts'
import { download } from '../data/save-file.ts'
import { useHasScope } from '../data/session.ts'
import { inputOf, instantOfInput } from '../parts/instant-input.ts'
import { Snippet } from '../parts/snippet.tsx'
import { RangeText } from '../parts/time-range.tsx'
import { Button } from '../ui/button.tsx'
import { Form, TextField } from '../ui/field.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { Fault, Notice, Panel, Screen, Stat, Stats } from '../ui/panel.tsx'
import { useKeys } from '../ui/shortcuts.ts'
import { dayMs, hourMs } from '../ui/span.ts'
import { DataTable } from '../ui/table.tsx'
import { Time, useZone } from '../ui/time.tsx'
import css from './incidents.module.css'
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
  const search = route.useSearch()
  const navigate = route.useNavigate()
  // The default range is fixed while the page is open; otherwise each render would start a new query.
  const [openedAt] = useState(() => Date.now())
  const { agent, from = new Date(openedAt - dayMs).toISOString(), to = new Date(openedAt).toISOString() } = search
  const change = (next: IncidentSearch) =>
    void navigate({ search: (before) => ({ ...before, ...next }), replace: true })
  if (!isAdmin)
    return (
      <Screen title="Incidents">
        <Notice>Evidence bundles contain audit entries and require a key with scope admin.</Notice>
      </Screen>
    )
  return (
    <Screen
      title="Incidents"
      lead="Export everything saved about an agent in a time range as an evidence bundle: one signed file that can be verified offline."
    >
      <RangeForm key={agent ?? ''} range={{ agent: agent ?? '', from, to }} onChange={change} />
      {agent === undefined ? (
        <Notice>Choose an agent, or open this page from an agent or a containment.</Notice>
      ) : (
        <Bundle range={{ agent, from, to }} />
      )}
      <Verification agent={agent ?? '<agent>'} />
      <Past />
    </Screen>
  )
}

const maxSuggested = 50

function RangeForm({ range, onChange }: { range: Range; onChange(next: IncidentSearch): void }) {
  const zone = useZone()
  const [agent, setAgent] = useState(range.agent)
  const field = useRef<HTMLInputElement>(null)
  const { data: found = [] } = useQuery(foundAgentsQuery(agent.trim(), maxSuggested))
  useKeys({ '/': () => field.current?.focus() })
  const apply = () => {
    if (agent.trim() !== range.agent) onChange({ agent: agent.trim() || undefined })
  }
  return (
    <Form className={css.form} onSubmit={apply}>
      <TextField
        ref={field}
        label="Agent"
        placeholder="id"
        suggestions={found.map(({ id }) => id)}
        maxLength={64}
        value={agent}
        onChange={({ target }) => setAgent(target.value)}
        onBlur={apply}
      />
      {(['from', 'to'] as const).map((name) => (
        <TextField
          key={name}
          label={`${name === 'from' ? 'From' : 'To'} (${zone === 'utc' ? 'UTC' : 'local time'})`}
          type="datetime-local"
          value={inputOf(range[name], zone)}
          onChange={({ target }) => onChange({ [name]: instantOfInput(target.value, zone) })}
        />
      ))}
      {spans.map(({ name, ms }) => (
        <Button
          key={name}
          onClick={() => {
            const now = Date.now()
            onChange({ from: new Date(now - ms).toISOString(), to: new Date(now).toISOString() })
          }}
        >
          {name}
        </Button>
      ))}
    </Form>
  )
}

/** What is counted, and above which number it no longer is: that is shown as a lower bound. */
const counted: [kind: keyof IncidentPreview['counts'], name: string, limit?: number][] = [
  ['events', 'Events', incidentLimits.countedEvents],
  ['decoy_hits', 'Decoy hits'],
  ['control_changes', 'Suspensions and resumes', incidentLimits.timelineRows],
  ['suspensions', 'Suspensions with stages'],
  ['rule_firings', 'Rule firings'],
  ['audit', 'Audit entries'],
]

const kinds: Record<IncidentPreview['timeline'][number]['kind'], string> = {
  decoy_hit: 'decoy hit',
  control_change: 'control',
  rule_firing: 'rule',
  suspension_stage: 'suspension',
}

function Bundle({ range }: { range: Range }) {
  const { data, error } = useQuery({
    queryKey: queryKeys.incident(range),
    queryFn: ({ signal }) => call('previewIncident', { query: queryOf(range), signal }),
  })
  if (!data) return error ? <Fault of={error} /> : <p className="quiet">Loading…</p>
  return (
    <>
      <Panel title="Bundle contents" note={<RangeText from={data.from} to={data.to} />}>
        <div className={css.body}>
          <Stats label="Counts">
            {counted.map(([kind, name, limit = Number.POSITIVE_INFINITY]) => {
              const count = data.counts[kind]
              return <Stat key={kind} name={name} value={`${count.toLocaleString('en')}${count < limit ? '' : '+'}`} />
            })}
          </Stats>
          <Download range={range} />
        </div>
      </Panel>
      <DataTable
        label="Timeline of the incident"
        title="Timeline"
        note="oldest first"
        end={
          <Link to="/events" search={{ instance_id: range.agent, from: range.from, to: range.to }} className="quiet">
            Open in events
          </Link>
        }
        columns={[
          { name: 'Time', kind: 'word', cell: ({ at }) => <Time at={at} /> },
          { name: 'Kind', kind: 'word', cell: ({ kind }) => <span className="quiet">{kinds[kind]}</span> },
          { name: 'Description', cell: ({ text }) => <HostileText text={text} /> },
        ]}
        rows={data.timeline}
        rowKey={(entry) => data.timeline.indexOf(entry)}
        empty="No suspensions, decoy hits or rule firings in this range."
      />
    </>
  )
}

function Download({ range }: { range: Range }) {
  // Each download is an entry of the audit log.
  const { isBusy, fault, run } = useChange({ changes: [queryKeys.incidentExports] })
  const address = `${endpoints.exportIncident.path}?${new URLSearchParams(queryOf(range))}`
  const save = () => run((signal) => download(address, signal), 'Bundle downloaded.')
  return (
    <>
      <p className="chips">
        <Button kind="go" disabled={isBusy} onClick={save}>
          {isBusy ? 'Preparing bundle…' : 'Download bundle'}
        </Button>
        <span className="quiet">
          Includes heartbeats, rule texts and key names, but no keys or decoy values. Each download is recorded in the
          audit log.
        </span>
      </p>
      <Fault of={fault} />
    </>
  )
}

function Verification({ agent }: { agent: string }) {
  const { origin } = location
  return (
    <Panel title="Verify a bundle">
      <div className={css.body}>
        <p>
          Verification reports the first altered file and block. Keep a copy of{' '}
          <a href={endpoints.getControlKeys.path}>the public keys</a> with your bundles to verify them offline.
        </p>
        <Snippet label="Verify" text={`wardline incident verify incident.tar.gz --keys ${origin}`} />
        <Snippet
          label="Export from a terminal"
          text={`wardline incident export ${agent} --since 24h --url ${origin}`}
        />
      </div>
    </Panel>
  )
}

const readPast = async (signal: AbortSignal) => {
  const query = { action: 'incident.export', order: 'newest', limit: '20' } as const
  const { entries } = await call('listAudit', { query, signal })
  return entries.map(({ after, ...entry }) => ({
    ...entry,
    ...(after as { instance_id?: string; from?: string; to?: string }),
  }))
}

function Past() {
  const { data, error } = useQuery({
    queryKey: queryKeys.incidentExports,
    queryFn: ({ signal }) => readPast(signal),
  })
  return (
    <DataTable
      label="Past exports"
      title="Past exports"
      note="from the audit log, newest first"
      end={
        <Link to="/audit" search={{ action: 'incident.*' }} className="quiet">
          Open in audit
        </Link>
      }
      columns={[
        { name: 'Time', kind: 'word', cell: ({ at }) => <Time at={at} /> },
        {
          name: 'Agent',
          cell: ({ instance_id = '', from, to }) => (
            <Link to="/incidents" search={{ agent: instance_id, from, to }}>
              <HostileText text={instance_id} line />
            </Link>
          ),
        },
        { name: 'Range', isWide: true, cell: ({ from, to }) => <RangeText from={from} to={to} /> },
        { name: 'Exported by', cell: ({ actor_name, actor }) => <HostileText text={actor_name ?? actor} max={60} /> },
      ]}
      rows={data}
      rowKey={({ seq }) => seq}
      fault={error}
      empty="No exports yet."
    />
  )
}
