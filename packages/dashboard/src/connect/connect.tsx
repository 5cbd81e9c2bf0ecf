import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { limits } from '@wardline/contract'
import { type FormEvent, useState } from 'react'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { sessionQuery } from '../data/session.ts'
import { Snippet } from '../parts/snippet.tsx'
import { Button } from '../ui/button.tsx'
import { TextField } from '../ui/field.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { lazyDialog } from '../ui/lazy-dialog.tsx'
import { Fault, Panel, Screen } from '../ui/panel.tsx'
import { spanText } from '../ui/span.ts'
import { Tabs } from '../ui/tabs.tsx'
import { Time, useNow } from '../ui/time.tsx'
import type { ConnectSearch } from './search.ts'
import { guides } from './snippets.ts'

const SimulateDialog = lazyDialog(async () => (await import('./simulate-dialog.tsx')).SimulateDialog)

const route = getRouteApi('/inside/connect')

const idPattern = /^[a-z0-9_-]{1,64}$/
const noKey = 'wl_agent_…'

/** Refetch intervals before and after the first heartbeat. */
const waitingMs = 1_000
const knownMs = 5_000

/** Reads the agent from the fleet. Ids are sorted, so of all ids with this prefix, the id itself comes first. */
async function readAgent(id: string, signal?: AbortSignal) {
  const { instances } = await call('listInstances', {
    query: { prefix: id, limit: '1' },
    ...(signal ? { signal } : {}),
  })
  return instances.find((instance) => instance.id === id) ?? null
}

interface CreatedKey {
  agent: string
  text: string
  /** The last heartbeat before the key was created. Only a later one proves that the agent is connected. */
  before: string | null
}

function Connection({ agent, created, hint }: { agent: string; created: CreatedKey | undefined; hint: string }) {
  const now = useNow()
  const isHeard = (last: string) => created === undefined || last !== created.before
  const { data } = useQuery({
    queryKey: queryKeys.connect(agent),
    queryFn: ({ signal }) => readAgent(agent, signal),
    refetchInterval: ({ state: { data: known } }) => (known && isHeard(known.last_heartbeat) ? knownMs : waitingMs),
  })
  const isConnected = data && isHeard(data.last_heartbeat)
  return (
    <p role="status">
      <span className={isConnected ? 'ok' : 'quiet'} aria-hidden="true">
        {isConnected ? '●' : '○'}
      </span>{' '}
      {isConnected ? (
        <span>
          <b className="ok">{created ? `${agent} is connected.` : `${agent} is already registered.`}</b> Last heartbeat{' '}
          <Time at={data.last_heartbeat} />
          <span aria-hidden="true">, {spanText(now - Date.parse(data.last_heartbeat))} ago</span>.{' '}
          <Link to="/fleet/$id" params={{ id: agent }}>
            Open agent
          </Link>
        </span>
      ) : (
        <span>
          <b>
            Waiting for the {created?.before ? 'next' : 'first'} heartbeat of {agent}…
          </b>{' '}
          <span className="quiet">{created ? hint : 'Create a key first.'}</span>
        </span>
      )}
    </p>
  )
}

interface KeyStepProps {
  id: string
  onId(id: string): void
  /** Whether the key of this agent was created on this page. */
  hasKey: boolean
  /** Whether the key is for a supervisor, whose word proves that the agent is held. */
  supervises: boolean
  onKey(created: CreatedKey): void
}

function KeyStep({ id, onId, hasKey, supervises, onKey }: KeyStepProps) {
  const { data: session } = useQuery(sessionQuery)
  const isAdmin = session?.scope === 'admin'
  const { run, isBusy, fault } = useChange({ changes: [queryKeys.keys] })
  function createKey(event: FormEvent) {
    event.preventDefault()
    void run(async () => {
      const before = (await readAgent(id))?.last_heartbeat ?? null
      const body = { scope: 'agent' as const, instances: [id], ...(supervises ? { supervises } : {}) }
      const { key } = await call('createKey', { body })
      onKey({ agent: id, text: key, before })
    })
  }
  return (
    <div className="inner">
      <form className="chips" onSubmit={createKey}>
        <TextField
          label="Agent id"
          isCode
          required
          placeholder="my-agent"
          pattern="[a-z0-9_\-]+"
          title="Lowercase letters, digits, _ and -"
          maxLength={limits.instanceId}
          value={id}
          onChange={({ target }) => onId(target.value)}
        />
        <Button
          isSubmit
          kind="go"
          disabled={isBusy || !isAdmin}
          {...(isAdmin ? {} : { about: '(requires a key with scope admin)' })}
        >
          {hasKey ? 'Create another key' : 'Create key'}
        </Button>
      </form>
      {hasKey && (
        <p className="quiet" role="status">
          The commands below contain the key. It is not shown again after you leave this page.
        </p>
      )}
      {session && !isAdmin && (
        <p className="quiet">
          Creating keys requires scope admin; you are signed in as <HostileText text={session.name} max={60} /> with
          scope {session.scope}. Ask an admin for a key with scope agent and replace <code>{noKey}</code> with it.
        </p>
      )}
      <Fault of={fault} />
    </div>
  )
}

export function Connect() {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const agent = search.agent !== undefined && idPattern.test(search.agent) ? search.agent : undefined
  const [id, setId] = useState(agent ?? '')
  const [created, setCreated] = useState<CreatedKey>()
  const show = (change: Partial<ConnectSearch>) =>
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true })
  const own = created?.agent === agent ? created : undefined
  const tab = search.tab ?? 'javascript'
  const { steps, hint } = guides[tab]
  return (
    <Screen
      title="Connect an agent"
      lead="Create a key for the agent, then run the commands on its host."
      actions={<Button onClick={() => show({ simulate: true })}>Simulate an attack…</Button>}
    >
      <Panel title="1. Create a key">
        <KeyStep
          id={id}
          onId={(text) => {
            setId(text)
            show({ agent: text || undefined })
          }}
          hasKey={own !== undefined}
          supervises={tab === 'any'}
          onKey={(made) => {
            setCreated(made)
            show({ agent: made.agent })
          }}
        />
      </Panel>
      <Panel title="2. Set up the agent">
        <div className="inner">
          <Tabs
            label="Kind of agent"
            value={tab}
            tabs={Object.entries(guides).map(([value, { name }]) => ({ value: value as typeof tab, name }))}
            onChange={(value) => show({ tab: value })}
          >
            {steps({ url: location.origin, agent: agent ?? 'my-agent', key: own?.text ?? noKey }).map((step) => (
              <Snippet key={step.label} {...step} />
            ))}
          </Tabs>
        </div>
      </Panel>
      <Panel title="3. Wait for the first heartbeat">
        <div className="inner">
          {agent === undefined ? (
            <p className="quiet">Enter an agent id above. This turns green on the first heartbeat.</p>
          ) : (
            <Connection key={`${agent} ${own?.text}`} agent={agent} created={own} hint={hint} />
          )}
        </div>
      </Panel>
      {search.simulate && <SimulateDialog onClose={() => show({ simulate: undefined })} />}
    </Screen>
  )
}
