import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import type { ReplyOf } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { Fragment, useEffect, useRef, useState } from 'react'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { useHasScope } from '../data/session.ts'
import { SetChips } from '../parts/filter-chips.tsx'
import { Chip } from '../ui/button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { Fault, Notice, Panel, Screen } from '../ui/panel.tsx'
import { spanText } from '../ui/span.ts'
import { DataTable, Facts } from '../ui/table.tsx'
import { Time, useNow } from '../ui/time.tsx'
import css from './settings.module.css'

const route = getRouteApi('/inside/settings')

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
  if (!health.ok) return 'Database unavailable'
  if (health.backplane === 'unavailable') return 'Backplane unavailable: changes by other processes arrive 1 s late'
  if (failing.length === 1) return `Job ${failing[0]!.name} failing`
  if (failing.length > 1) return `${counted(failing.length, 'job')} failing`
  if (broken.length > 0) return `${counted(broken.length, 'alert channel')} failing`
  return 'Service healthy'
}

const number = (count: number) => count.toLocaleString('en')
const megabytes = (bytes: number): string => `${number(Math.ceil(bytes / mebibyte))} MiB`

function LastError({ at, text }: { at: string | null; text: string | null }) {
  return (
    <>
      {at && <Time at={at} />} <HostileText text={text ?? ''} max={120} />
    </>
  )
}

function Health({ system: { health, storage, version }, checkedAt }: { system: System; checkedAt: number }) {
  const isFull = storage.max_bytes !== null && storage.used_bytes / storage.max_bytes > 0.9
  return (
    <div className={css.pair}>
      <Panel
        title="Health"
        note={
          <>
            checked at <Time at={new Date(checkedAt).toISOString()} />
          </>
        }
      >
        <Facts
          facts={[
            ['Database', health.database === 'ok' ? 'writable' : <b className="breach">unavailable</b>],
            ['Backplane', health.backplane === 'in-process' ? 'none (single process)' : health.backplane],
            ['Clock offset', `${number(health.clock_offset_ms)} ms behind the database`],
            ['Version', version],
          ]}
        />
      </Panel>
      <Panel title="Storage and retention">
        <Facts
          facts={[
            [
              'Size',
              <>
                {megabytes(storage.used_bytes)}
                {storage.max_bytes === null ? ', no limit' : ` of ${megabytes(storage.max_bytes)}`}
                {isFull && <b className="warning"> ▲ nearly full: the oldest events will be deleted</b>}
              </>,
            ],
            ['Events stored', `about ${number(storage.events_at_most)}`],
            ['Oldest event', storage.oldest_event_at ? <Time at={storage.oldest_event_at} /> : 'none'],
            ['Retention', counted(storage.retention_days, 'day')],
            ['Agents', `${number(storage.instances)} of ${number(storage.max_instances)}`],
          ]}
        />
      </Panel>
    </div>
  )
}

/** What the service does by itself. Details are below, under the name of the setting. */
function Protection({ configuration }: { configuration: System['configuration'] }) {
  const settingOf = (name: string) => configuration.find((setting) => setting.name === name)?.value || undefined
  const port = settingOf('WARDLINE_DECOY_PORT')
  const suspends = settingOf('WARDLINE_AUTO_SUSPEND')
  return (
    <Panel title="What is on">
      <Facts
        facts={[
          ['Automatic suspension', suspends === undefined ? 'off' : `on: ${suspends}`],
          ['Decoy URLs', port === undefined ? 'off' : `on: port ${port}`],
          ['Public trust page', settingOf('TRUST_PUBLIC_ENABLED') === 'true' ? 'on' : 'off'],
        ]}
      />
    </Panel>
  )
}

function Jobs({ jobs }: { jobs: readonly Job[] }) {
  const now = useNow()
  const untilText = (at: string) => (Date.parse(at) > now ? `in ${spanText(Date.parse(at) - now)}` : 'now')
  return (
    <DataTable
      title="Background jobs"
      note="what this process does periodically, by the names in its log"
      empty="No jobs."
      rows={jobs.toSorted((one, other) => Number(isFailing(other)) - Number(isFailing(one)))}
      rowKey={({ name }) => name}
      columns={[
        { name: 'Job', kind: 'word', cell: ({ name }) => <span className="mono">{name}</span> },
        {
          name: 'State',
          kind: 'word',
          cell: (job) => (isFailing(job) ? <b className="critical">◆ failing</b> : job.is_running ? 'running' : 'ok'),
        },
        {
          name: 'Last success',
          isWide: true,
          cell: ({ last_success_at: at }) => (at ? <Time at={at} /> : 'none'),
        },
        {
          name: 'Last error',
          kind: 'line',
          cell: (job) => <LastError at={job.last_failure_at} text={job.last_error} />,
        },
        {
          name: 'Next run',
          isWide: true,
          cell: ({ next_run_at, every_ms }) => (
            <>
              {untilText(next_run_at)}{' '}
              <span className="quiet">every {every_ms < 1_000 ? `${every_ms} ms` : spanText(every_ms)}</span>
            </>
          ),
        },
      ]}
    />
  )
}

const channelStates = { ok: 'ok', failing: '◆ failing', disabled: 'disabled' }

function Channels({ channels }: { channels: System['channels'] }) {
  return (
    <DataTable
      title="Alert channels"
      empty={
        <>
          No alert channels: nobody is notified.{' '}
          <Link to="/alerts" search={{ view: 'channels' }}>
            Add a channel
          </Link>
        </>
      }
      rows={channels}
      rowKey={({ id }) => id}
      columns={[
        {
          name: 'Channel',
          cell: ({ name, type }) => (
            <>
              <HostileText text={name} max={60} /> <span className="quiet">{type}</span>
            </>
          ),
        },
        {
          name: 'State',
          cell: ({ state, last_delivered_at }) =>
            state === 'ok' && last_delivered_at === null ? (
              <Link to="/alerts" search={{ view: 'channels' }}>
                not tried yet: send a test
              </Link>
            ) : (
              <span className={state === 'failing' ? 'critical' : ''}>{channelStates[state]}</span>
            ),
        },
        { name: 'Pending', kind: 'number', isWide: true, cell: ({ waiting }) => number(waiting) },
        {
          name: 'Last delivery',
          isWide: true,
          cell: ({ last_delivered_at: at }) => (at ? <Time at={at} /> : 'never'),
        },
        {
          name: 'Last error',
          kind: 'line',
          cell: (channel) => <LastError at={channel.last_error_at} text={channel.last_error} />,
        },
      ]}
    />
  )
}

/** The meaning without the marks and links of the reference. */
const plainMeaning = (text: string) => text.replaceAll(/\[([^\]]+)\]\([^)]+\)/g, '$1').replaceAll('`', '')

/** A name that breaks only between its words. */
function SettingName({ name }: { name: string }) {
  return (
    <span className="mono">
      {name.split(/(?<=_)/).map((word, index) => (
        <Fragment key={index}>
          {index > 0 && <wbr />}
          {word}
        </Fragment>
      ))}
    </span>
  )
}

function Configuration({ configuration }: { configuration: System['configuration'] }) {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const [isChangedOnly, setChangedOnly] = useState(false)
  const place = useRef<HTMLDivElement>(null)
  const { setting } = search
  useEffect(() => {
    if (setting !== undefined) place.current?.scrollIntoView()
  }, [setting])
  const isShown = ({ name, source }: System['configuration'][number]) =>
    setting === undefined ? !isChangedOnly || source !== 'default' : name === setting
  const allOrChanged = (
    <Chip isOn={isChangedOnly} onClick={() => setChangedOnly(!isChangedOnly)}>
      Hide defaults
    </Chip>
  )
  return (
    <div ref={place}>
      <DataTable
        title="Configuration"
        note="read from the environment at startup; changes need a restart"
        end={
          setting === undefined ? (
            allOrChanged
          ) : (
            <SetChips
              names={{ setting: 'Setting' }}
              search={search}
              onShow={() => void navigate({ search: {}, replace: true })}
            />
          )
        }
        empty={setting === undefined ? 'All settings have their default.' : 'No setting has this name.'}
        rows={configuration.filter(isShown)}
        rowKey={({ name }) => name}
        columns={[
          { name: 'Setting', cell: ({ name }) => <SettingName name={name} /> },
          {
            name: 'Value',
            cell: ({ value, is_secret }) => {
              if (value === null) return <span className="quiet">not set</span>
              return (
                <span className={`mono ${css.value}`}>
                  {is_secret ? 'set' : <HostileText text={value} max={120} />}
                </span>
              )
            },
          },
          {
            name: 'Source',
            cell: ({ source, name, reason }) =>
              source === 'file' ? `${name}_FILE` : reason === undefined ? source : `${source}, because ${reason}`,
          },
          {
            name: 'Meaning',
            kind: 'line',
            cell: ({ meaning }) => <span className="quiet">{plainMeaning(meaning)}</span>,
          },
        ]}
      />
    </div>
  )
}

/** Health and configuration of the service itself. */
export function Settings() {
  const mayRead = useHasScope('operator', 'admin')
  const now = useNow()
  const { data, error, dataUpdatedAt } = useQuery({
    queryKey: queryKeys.system,
    queryFn: ({ signal }) => call('getSystem', { signal }),
    refetchInterval: refreshMs,
    enabled: mayRead,
  })
  if (!mayRead)
    return (
      <Screen title="Settings">
        <Notice>Settings require a key with scope operator or admin.</Notice>
      </Screen>
    )
  const age = now - dataUpdatedAt
  const isStale = data !== undefined && age > 3 * refreshMs
  const verdict = () => {
    if (isStale) return `No answer from the service for ${spanText(age)}`
    if (data) return verdictOf(data)
    return error ? 'No answer from the service' : 'Settings'
  }
  return (
    <Screen
      title={verdict()}
      heading={<span aria-live="polite">{verdict()}</span>}
      lead={isStale && 'Data may be outdated.'}
    >
      <Fault of={error} />
      {data && (
        <div className={`stack ${isStale ? css.stale : ''}`}>
          <Protection configuration={data.configuration} />
          {data.warnings.map((warning) => (
            <Notice key={warning}>{warning}</Notice>
          ))}
          <Health system={data} checkedAt={dataUpdatedAt} />
          <Channels channels={data.channels} />
          <Configuration configuration={data.configuration} />
          <Jobs jobs={data.jobs} />
        </div>
      )}
    </Screen>
  )
}
