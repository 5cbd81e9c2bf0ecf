import { useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { limits } from '@wardline/contract'
import { type FormEvent, useState } from 'react'
import { HostileText } from '../parts/hostile-text.tsx'
import '../parts/list.css'
import { Snippet } from '../parts/snippet.tsx'
import { spanText } from '../parts/span.ts'
import { Time, useNow } from '../parts/time.tsx'
import { call, sentenceOf } from '../service/client.ts'
import { keysKey } from '../service/keys.ts'
import { sessionQuery } from '../service/session.ts'
import { useTitle } from '../shell/title.ts'
import './connect.css'
import type { ConnectSearch } from './search.ts'
import { SimulateDialog } from './simulate-dialog.tsx'
import { firstWord, stepsOf, tabNames, tabs } from './snippets.ts'

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

interface MadeKey {
  agent: string
  text: string
  /** The last heartbeat before the key was created. Only a later one proves that the agent is connected. */
  before: string | null
}

function Connection({ agent, made, hint }: { agent: string; made: MadeKey | undefined; hint: string }) {
  const now = useNow()
  const before = made?.before
  const { data } = useQuery({
    queryKey: ['connect', agent],
    queryFn: ({ signal }) => readAgent(agent, signal),
    refetchInterval: ({ state: { data: known } }) =>
      known && (made === undefined || known.last_heartbeat !== before) ? knownMs : waitingMs,
  })
  const isConnected = data && (made === undefined || data.last_heartbeat !== before)
  if (!isConnected) {
    return (
      <p role="status" className="connection">
        <span className="open-circle" aria-hidden="true" />
        <span>
          <b>
            {made && before
              ? `Waiting for the next heartbeat of ${agent}…`
              : `Waiting for the first heartbeat of ${agent}…`}
          </b>{' '}
          <span className="quiet">{made ? hint : 'Make a key for it first.'}</span>
        </span>
      </p>
    )
  }
  return (
    <p role="status" className="connection connected">
      <span className="full-circle" aria-hidden="true" />
      <span>
        <b>{made ? `${agent} is connected.` : `${agent} is known.`}</b> Last heartbeat <Time at={data.last_heartbeat} />
        <span aria-hidden="true">, {spanText(now - Date.parse(data.last_heartbeat))} ago</span>.{' '}
        <Link to="/fleet/$id" params={{ id: agent }}>
          Open the agent
        </Link>
      </span>
    </p>
  )
}

export function Connect() {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const client = useQueryClient()
  const { data: session } = useQuery(sessionQuery)
  const isAdmin = session?.scope === 'admin'
  const tab = search.tab ?? 'typescript'
  const agent = search.agent !== undefined && idPattern.test(search.agent) ? search.agent : undefined
  const [id, setId] = useState(agent ?? '')
  const [made, setMade] = useState<MadeKey>()
  const [fault, setFault] = useState<string>()
  const [isBusy, setBusy] = useState(false)
  useTitle('Connect an agent')
  const show = (change: Partial<ConnectSearch>) =>
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true })
  const own = made?.agent === agent ? made : undefined

  async function makeKey(event: FormEvent) {
    event.preventDefault()
    setBusy(true)
    setFault(undefined)
    try {
      const before = (await readAgent(id))?.last_heartbeat ?? null
      const { key } = await call('createKey', { body: { scope: 'agent', instances: [id] } })
      setMade({ agent: id, text: key, before })
      show({ agent: id })
      await client.invalidateQueries({ queryKey: keysKey })
    } catch (problem) {
      setFault(sentenceOf(problem))
    }
    setBusy(false)
  }

  const steps = stepsOf[tab]({ url: location.origin, agent: agent ?? 'my-agent', key: own?.text ?? noKey })
  return (
    <div className="rows connect">
      <div>
        <div className="head">
          <h1>Connect an agent</h1>
          <span className="end">
            <button type="button" onClick={() => show({ simulate: true })}>
              Simulate an attack…
            </button>
          </span>
        </div>
        <p className="quiet lead">
          Name the agent, make a key that can speak only for it, and copy the lines into its host.
        </p>
      </div>
      <section className="panel" aria-labelledby="who">
        <header>
          <h2 id="who">1 · A key for the agent</h2>
        </header>
        <div className="step">
          <form className="chips" onSubmit={makeKey}>
            <label>
              <span className="only-read">Id of the agent</span>
              <input
                required
                placeholder="my-agent"
                pattern="[a-z0-9_\-]+"
                title="Lower-case letters, digits, _ and -"
                maxLength={limits.instanceId}
                autoComplete="off"
                spellCheck={false}
                className="mono"
                value={id}
                onChange={(event) => {
                  setId(event.target.value)
                  show({ agent: event.target.value || undefined })
                }}
              />
            </label>
            <button type="submit" className="go" disabled={isBusy || !isAdmin}>
              {own ? 'Make another key' : 'Make a key'}
              {!isAdmin && <span className="only-read"> (needs a key of scope admin)</span>}
            </button>
            {own && (
              <span className="quiet" role="status">
                The key is in the lines below, and nowhere else: this page forgets it when you leave.
              </span>
            )}
          </form>
          {session && !isAdmin && (
            <p className="quiet">
              Only a key of scope admin makes keys; you are signed in as <HostileText text={session.name} max={60} />{' '}
              with scope {session.scope}. Ask an admin for a key of scope agent, and put it in place of{' '}
              <code>{noKey}</code>.
            </p>
          )}
          <p role="alert" className="fault">
            {fault}
          </p>
        </div>
      </section>
      <section className="panel" aria-labelledby="how">
        <header>
          <h2 id="how">2 · On its host</h2>
        </header>
        <div className="step">
          <div className="chips" role="group" aria-label="Kind of agent">
            {tabs.map((name) => (
              <button
                key={name}
                type="button"
                className="chip"
                aria-pressed={name === tab}
                onClick={() => show({ tab: name })}
              >
                {tabNames[name]}
              </button>
            ))}
          </div>
          {steps.map(({ label, text }) => (
            <Snippet key={label} label={label} text={text} />
          ))}
        </div>
      </section>
      <section className="panel" aria-labelledby="heard">
        <header>
          <h2 id="heard">3 · Its first heartbeat</h2>
        </header>
        <div className="step">
          {agent === undefined ? (
            <p className="quiet">Name the agent above: this turns green when it is heard.</p>
          ) : (
            <Connection key={`${agent} ${own?.text}`} agent={agent} made={own} hint={firstWord[tab]} />
          )}
        </div>
      </section>
      {search.simulate && <SimulateDialog isAdmin={isAdmin} onClose={() => show({ simulate: undefined })} />}
    </div>
  )
}
