import { useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import type { KeyView } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useRef, useState } from 'react'
import { FilterField } from '../parts/filter-field.tsx'
import { HostileText } from '../parts/hostile-text.tsx'
import '../parts/list.css'
import { spanText } from '../parts/span.ts'
import { Time, useNow } from '../parts/time.tsx'
import { sentenceOf } from '../service/client.ts'
import { isEnded, keysQuery } from '../service/keys.ts'
import { sessionQuery } from '../service/session.ts'
import { useKeys } from '../shell/keys.ts'
import { useTitle } from '../shell/title.ts'
import { CreateKeyDialog, RevokeDialog, RotateDialog } from './key-dialogs.tsx'
import type { KeySearch } from './search.ts'

const route = getRouteApi('/inside/keys')

/** Rows shown at first. */
const firstRows = 200

type Asked = { action: 'rotate' | 'revoke'; key: KeyView }

function State({ entry, now }: { entry: KeyView; now: number }) {
  const { revoked_at, expires_at } = entry
  if (revoked_at !== null)
    return (
      <>
        revoked <Time at={revoked_at} />
      </>
    )
  if (expires_at === null) return <span className="ok">valid</span>
  const left = Date.parse(expires_at) - now
  return left <= 0 ? (
    <>
      expired <Time at={expires_at} />
    </>
  ) : (
    <span className="warning">valid for {spanText(left)}</span>
  )
}

function KeyRow({
  entry,
  isOwn,
  now,
  onAsk,
}: {
  entry: KeyView
  isOwn: boolean
  now: number
  onAsk(asked: Asked): void
}) {
  const { id, name, scope, instances, created_at, last_used_at } = entry
  return (
    <tr>
      <td>
        <b>
          <HostileText text={name} max={100} />
        </b>{' '}
        {isOwn && <span className="own">yours</span>}
        <span className="under">
          <span className="mono">{id}</span> · created <Time at={created_at} />
        </span>
      </td>
      <td>
        {scope}
        {instances.length > 0 && (
          <span className="under mono">
            <HostileText text={instances.join(', ')} max={80} />
          </span>
        )}
      </td>
      <td className="only-wide number">{last_used_at === null ? 'none yet' : <Time at={last_used_at} />}</td>
      <td className="number">
        <State entry={entry} now={now} />
      </td>
      <td>
        {!isEnded(entry, now) && (
          <span className="chips">
            <button type="button" onClick={() => onAsk({ action: 'rotate', key: entry })}>
              Rotate…<span className="only-read"> {name}</span>
            </button>
            <button type="button" className="danger" onClick={() => onAsk({ action: 'revoke', key: entry })}>
              Revoke…<span className="only-read"> {name}</span>
            </button>
          </span>
        )}
      </td>
    </tr>
  )
}

function KeyTable({ ownId }: { ownId: string }) {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const { data, error } = useQuery(keysQuery)
  const now = useNow()
  const [text, setText] = useState(search.q ?? '')
  const [asked, setAsked] = useState<Asked>()
  const [isWhole, setWhole] = useState(false)
  const filter = useRef<HTMLInputElement>(null)
  const all = data ?? []
  const words = (search.q ?? '').toLowerCase()
  const found = all.filter(({ id, name, scope, instances }) =>
    [id, name, scope, ...instances].join('\n').toLowerCase().includes(words),
  )
  const ended = found.filter((entry) => isEnded(entry, now))
  const valid = found.filter((entry) => !isEnded(entry, now))
  const matching = (search.show === 'ended' ? ended : valid).toReversed()
  const shown = isWhole ? matching : matching.slice(0, firstRows)
  const validAll = all.filter((entry) => !isEnded(entry, now))
  const title = data ? `${counted(validAll.length, 'valid key')}` : 'Keys'
  useTitle(title)
  const show = (change: Partial<KeySearch>) =>
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true })
  useKeys({ '/': () => filter.current?.focus(), n: () => show({ create: true }) })
  return (
    <>
      <div>
        <div className="head">
          <h1>{title}</h1>
          <span className="end">
            <button type="button" className="go" onClick={() => show({ create: true })}>
              Create a key <kbd>n</kbd>
            </button>
          </span>
        </div>
        <p className="quiet lead">
          {data && !all.some(({ id }) => id === ownId)
            ? 'You are signed in with WARDLINE_API_KEY, which is set where the service runs and changed there. '
            : ''}
          Each agent and each person gets a separate key: then one can be revoked without the others.
        </p>
      </div>
      {error && (
        <p role="alert" className="fault">
          {sentenceOf(error)}
        </p>
      )}
      <div className="chips">
        <FilterField
          field={filter}
          by="name, id, role or agent"
          value={text}
          onChange={(next) => {
            setText(next)
            show({ q: next || undefined })
          }}
        />
        <button
          type="button"
          className="chip"
          aria-pressed={search.show === undefined}
          onClick={() => show({ show: undefined })}
        >
          Valid <b>{valid.length.toLocaleString('en')}</b>
        </button>
        <button
          type="button"
          className="chip"
          aria-pressed={search.show === 'ended'}
          onClick={() => show({ show: 'ended' })}
        >
          Revoked or expired <b>{ended.length.toLocaleString('en')}</b>
        </button>
      </div>
      {data && (
        <section className="panel list-panel" aria-label="Keys, the newest first">
          <table className="list stack">
            <thead>
              <tr>
                <th>key</th>
                <th>role and agents</th>
                <th className="only-wide">last use</th>
                <th>state</th>
                <th>
                  <span className="only-read">actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {shown.map((entry) => (
                <KeyRow key={entry.id} entry={entry} isOwn={entry.id === ownId} now={now} onAsk={setAsked} />
              ))}
            </tbody>
          </table>
          {matching.length === 0 && <p className="empty">No key matches.</p>}
          {shown.length < matching.length && (
            <p className="empty">
              {counted(matching.length - shown.length, 'key')} more are not shown.{' '}
              <button type="button" onClick={() => setWhole(true)}>
                Show all {matching.length.toLocaleString('en')}
              </button>
            </p>
          )}
        </section>
      )}
      {search.create && <CreateKeyDialog onClose={() => show({ create: undefined })} />}
      {asked?.action === 'rotate' && (
        <RotateDialog entry={asked.key} isOwn={asked.key.id === ownId} onClose={() => setAsked(undefined)} />
      )}
      {asked?.action === 'revoke' && (
        <RevokeDialog
          entry={asked.key}
          isOwn={asked.key.id === ownId}
          isLastAdmin={asked.key.scope === 'admin' && validAll.filter(({ scope }) => scope === 'admin').length === 1}
          onClose={() => setAsked(undefined)}
        />
      )}
    </>
  )
}

export function Keys() {
  const { data: session } = useQuery(sessionQuery)
  if (!session) return <h1>Keys</h1>
  if (session.scope === 'admin')
    return (
      <div className="rows">
        <KeyTable ownId={session.key_id} />
      </div>
    )
  return (
    <div className="rows">
      <h1>Keys</h1>
      <section className="panel" aria-label="Why no keys are shown">
        <p className="empty">
          Only a key of scope admin manages keys. You are signed in as <HostileText text={session.name} max={60} /> with
          scope {session.scope}. An admin creates keys for you here or in a terminal:{' '}
          <code>wardline keys create --scope agent --instance my-agent</code>
        </p>
      </section>
    </div>
  )
}
