import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ReplyOf } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { HostileText } from '../parts/hostile-text.tsx'
import { spanText } from '../parts/span.ts'
import { Time, useNow } from '../parts/time.tsx'
import { call, sentenceOf } from '../service/client.ts'
import { useHasScope } from '../service/session.ts'
import { useTitle } from '../shell/title.ts'
import './settings.css'

type System = ReplyOf<'getSystem'>
type Job = System['jobs'][number]

const refreshMs = 10_000
const mebibyte = 1024 * 1024

const isFailing = ({ last_failure_at, last_success_at }: Job): boolean =>
  last_failure_at !== null && (last_success_at === null || last_success_at < last_failure_at)

/** Returns the heading: current faults. */
function verdictOf({ health, jobs, channels }: System): string {
  const failing = jobs.filter(isFailing)
  const broken = channels.filter(({ state }) => state === 'failing')
  if (!health.ok) return 'The database is unavailable.'
  if (health.backplane === 'unavailable')
    return 'The backplane is unavailable: other processes are seen a second later.'
  if (failing.length === 1) return `The job ${failing[0]!.name} fails.`
  if (failing.length > 1) return `${counted(failing.length, 'job')} fail.`
  if (broken.length > 0) return `Alerts do not reach ${counted(broken.length, 'channel')}.`
  return 'The service is healthy.'
}

const megabytes = (bytes: number): string => `${Math.ceil(bytes / mebibyte).toLocaleString('en')} MiB`

function Facts({ facts }: { facts: [name: string, value: React.ReactNode][] }) {
  return (
    <dl className="system-facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  )
}

function Jobs({ jobs }: { jobs: readonly Job[] }) {
  const now = useNow()
  const inSpan = (at: string) => {
    const ms = Date.parse(at) - now
    return ms > 0 ? `in ${spanText(ms)}` : 'now'
  }
  return (
    <section className="panel" aria-labelledby="jobs">
      <header>
        <h2 id="jobs">Jobs</h2>
        <span className="quiet">periodic work of the process that answers, since its start</span>
      </header>
      <div className="wide" tabIndex={0} role="group" aria-label="List of jobs">
        <table>
          <thead>
            <tr>
              <th>job</th>
              <th>state</th>
              <th>last success</th>
              <th>last error</th>
              <th>next run</th>
            </tr>
          </thead>
          <tbody>
            {[...jobs]
              .sort((one, other) => Number(isFailing(other)) - Number(isFailing(one)))
              .map((job) => (
                <tr key={job.name}>
                  <td className="mono">{job.name}</td>
                  <td>{isFailing(job) ? <b className="critical">◆ fails</b> : job.is_running ? 'running' : 'ok'}</td>
                  <td>{job.last_success_at ? <Time at={job.last_success_at} /> : 'not yet'}</td>
                  <td>
                    {job.last_failure_at && <Time at={job.last_failure_at} />}{' '}
                    <HostileText text={job.last_error ?? ''} max={120} />
                  </td>
                  <td>
                    {inSpan(job.next_run_at)}{' '}
                    <span className="quiet">
                      every {job.every_ms < 1_000 ? `${job.every_ms} ms` : spanText(job.every_ms)}
                    </span>
                  </td>
                </tr>
              ))}
          </tbody>
        </table>
      </div>
    </section>
  )
}

function Channels({ channels }: { channels: System['channels'] }) {
  const words = { ok: 'ok', failing: '◆ failing', disabled: 'disabled' }
  return (
    <section className="panel" aria-labelledby="channels">
      <header>
        <h2 id="channels">Alert channels</h2>
      </header>
      {channels.length === 0 ? (
        <p className="empty">
          No channel is set up: alerts reach nobody.{' '}
          <Link to="/alerts" search={{ view: 'channels' }}>
            Add a channel
          </Link>
        </p>
      ) : (
        <div className="wide" tabIndex={0} role="group" aria-label="List of channels">
          <table>
            <thead>
              <tr>
                <th>channel</th>
                <th>state</th>
                <th>waiting</th>
                <th>last delivery</th>
                <th>last error</th>
              </tr>
            </thead>
            <tbody>
              {channels.map((channel) => (
                <tr key={channel.id}>
                  <td>
                    <HostileText text={channel.name} max={60} /> <span className="quiet">{channel.type}</span>
                  </td>
                  <td className={channel.state === 'failing' ? 'critical' : ''}>{words[channel.state]}</td>
                  <td>{channel.waiting.toLocaleString('en')}</td>
                  <td>{channel.last_delivered_at ? <Time at={channel.last_delivered_at} /> : 'never'}</td>
                  <td>
                    {channel.last_error_at && <Time at={channel.last_error_at} />}{' '}
                    <HostileText text={channel.last_error ?? ''} max={120} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  )
}

function Configuration({ configuration }: { configuration: System['configuration'] }) {
  const [isChangedOnly, setChangedOnly] = useState(false)
  const shown = configuration.filter(({ source }) => !isChangedOnly || source !== 'default')
  return (
    <section className="panel" aria-labelledby="configuration">
      <header>
        <h2 id="configuration">Configuration</h2>
        <span className="quiet">read at startup from the environment; a change needs a restart</span>
        <span className="end">
          <button
            type="button"
            className="chip"
            aria-pressed={isChangedOnly}
            onClick={() => setChangedOnly(!isChangedOnly)}
          >
            Set ones only
          </button>
        </span>
      </header>
      {shown.length === 0 && <p className="empty">Every setting has its default.</p>}
      {shown.length > 0 && (
        <div className="wide" tabIndex={0} role="group" aria-label="List of settings">
          <table>
            <thead>
              <tr>
                <th>setting</th>
                <th>value</th>
                <th>source</th>
                <th>meaning</th>
              </tr>
            </thead>
            <tbody>
              {shown.map(({ name, value, is_secret, source, meaning }) => (
                <tr key={name}>
                  <td className="mono">{name}</td>
                  <td className="mono value">
                    {value === null ? <span className="quiet">not set</span> : null}
                    {value !== null && is_secret && 'set'}
                    {value !== null && !is_secret && <HostileText text={value} max={120} />}
                  </td>
                  <td>{source === 'file' ? `${name}_FILE` : source}</td>
                  <td className="quiet">{meaning.replaceAll('`', '')}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  )
}

function SystemPanels({ system, checkedAt }: { system: System; checkedAt: number }) {
  const { health, storage, version } = system
  const share = storage.max_bytes ? storage.used_bytes / storage.max_bytes : undefined
  return (
    <>
      <section className="panel" aria-labelledby="health">
        <header>
          <h2 id="health">Health</h2>
          <span className="quiet">
            at <Time at={new Date(checkedAt).toISOString()} />
          </span>
        </header>
        <Facts
          facts={[
            ['Database', health.database === 'ok' ? 'writable' : <b className="breach">unavailable</b>],
            ['Backplane', health.backplane === 'in-process' ? 'none, one process' : health.backplane],
            ['Clock behind the database', `${health.clock_offset_ms.toLocaleString('en')} ms`],
            ['Version', version],
          ]}
        />
      </section>
      <section className="panel" aria-labelledby="storage">
        <header>
          <h2 id="storage">Storage and limits</h2>
        </header>
        <Facts
          facts={[
            [
              'Database',
              <>
                {megabytes(storage.used_bytes)}
                {storage.max_bytes === null ? ', no limit' : ` of ${megabytes(storage.max_bytes)}`}
                {share !== undefined && share > 0.9 && <b className="warning"> ▲ the oldest events will go</b>}
              </>,
            ],
            ['Events kept', `${storage.events_at_most.toLocaleString('en')} at most`],
            ['Oldest event', storage.oldest_event_at ? <Time at={storage.oldest_event_at} /> : 'none'],
            ['Retention', counted(storage.retention_days, 'day')],
            [
              'Agents',
              `${storage.instances.toLocaleString('en')} of ${storage.max_instances.toLocaleString('en')} at most`,
            ],
          ]}
        />
      </section>
      <Jobs jobs={system.jobs} />
      <Channels channels={system.channels} />
      <Configuration configuration={system.configuration} />
    </>
  )
}

/** Health and configuration of the service itself. */
export function Settings() {
  const mayRead = useHasScope('operator', 'admin')
  const now = useNow()
  const { data, error, dataUpdatedAt } = useQuery({
    queryKey: ['system'],
    queryFn: ({ signal }) => call('getSystem', { signal }),
    refetchInterval: refreshMs,
    enabled: mayRead,
  })
  const age = now - dataUpdatedAt
  const isStale = data !== undefined && age > 3 * refreshMs
  const verdict = isStale
    ? `No answer from the service for ${spanText(age)}.`
    : data
      ? verdictOf(data)
      : error
        ? 'The service does not answer.'
        : 'Settings'
  useTitle(verdict)
  if (!mayRead)
    return (
      <div className="rows">
        <h1>Settings</h1>
        <p className="notice">Settings and health of the service need a key of scope operator or admin.</p>
      </div>
    )
  return (
    <div className="rows settings">
      <div>
        <h1 aria-live="polite">{verdict}</h1>
        {isStale && <p className="quiet lead">What follows was true then.</p>}
        {error && (
          <p role="alert" className="fault">
            {sentenceOf(error)}
          </p>
        )}
      </div>
      {data && (
        <div className={`rows ${isStale ? 'stale' : ''}`}>
          <SystemPanels system={data} checkedAt={dataUpdatedAt} />
        </div>
      )}
    </div>
  )
}
