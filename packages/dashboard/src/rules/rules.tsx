import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { ruleModes } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useRef, useState } from 'react'
import { FilterField } from '../parts/filter-field.tsx'
import { HostileText } from '../parts/hostile-text.tsx'
import '../parts/list.css'
import { SeverityMark } from '../parts/marks.tsx'
import { Time } from '../parts/time.tsx'
import { sentenceOf } from '../service/client.ts'
import { type ListedRule, rulesQuery } from '../service/rules.ts'
import { useMayOperate } from '../service/session.ts'
import { useKeys } from '../shell/keys.ts'
import { useTitle } from '../shell/title.ts'
import { HourBars } from './hour-bars.tsx'
import { modeSentences } from './rule-texts.ts'
import './rules.css'
import type { RulesSearch } from './search.ts'

const route = getRouteApi('/inside/rules')

/** Normal lag under load, in events. Above this, the rule runner is not keeping up. */
const usualLag = 1_000

function headingOf(rules: readonly ListedRule[]): string {
  if (rules.length === 0) return 'No rule is stored.'
  const firings = rules.reduce((sum, rule) => sum + rule.firings_24h, 0)
  return `${counted(rules.length, 'rule')}, ${firings === 0 ? 'none fired' : counted(firings, 'firing')} in 24 h.`
}

const lagText = (lag: number): string =>
  lag === 0 ? 'Every stored event was taken through the rules.' : `The rules are ${counted(lag, 'event')} behind.`

function RuleRow({ rule, isAt }: { rule: ListedRule; isAt: boolean }) {
  const { id, title, mode, severity, version, file, responses, recent_hours, last_fired_at } = rule
  const { firings_24h, suppressed_24h } = rule
  return (
    <tr className={isAt ? 'at' : ''}>
      <td>
        <Link to="/rules/$id" params={{ id }}>
          <HostileText text={title} max={120} line />
        </Link>
        <span className="under">
          v{version} · {file === null ? 'interface' : <HostileText text={`file ${file}`} max={100} />}
          {responses.length > 0 && ` · ${[...new Set(responses)].join(', ').replaceAll('_', ' ')}`}
          <span className="only-narrow"> · {severity}</span>
        </span>
      </td>
      <td>
        <span className={`rule-state ${mode}`}>{mode}</span>
      </td>
      <td className="only-wide">
        <SeverityMark severity={severity} />
      </td>
      <td className="number">
        <span className="only-wide">
          <HourBars hours={recent_hours} />
        </span>{' '}
        {firings_24h.toLocaleString('en')}
        {suppressed_24h > 0 && <span className="under">{suppressed_24h.toLocaleString('en')} suppressed</span>}
      </td>
      <td className="number">{last_fired_at === null ? '–' : <Time at={last_fired_at} />}</td>
      <td className="number only-wide">
        <Time at={rule.changed_at} />
      </td>
    </tr>
  )
}

function Teaching() {
  return (
    <section className="panel" aria-label="How rules work">
      <div className="rule-inner rule-teaching">
        <p>A rule says which events matter, one by one or together, and what is done about them.</p>
        <ol>
          {ruleModes.map((mode) => (
            <li key={mode}>
              <span className={`rule-state ${mode}`}>{mode}</span> {modeSentences[mode]}
            </li>
          ))}
        </ol>
        <p>
          Begin with a new rule in mode observe, look at what it finds for some days, then switch it on. Rules can also
          come from a folder (<code>WARDLINE_RULES_DIR</code>) or from <code>wardline rules add rule.yml</code>.
        </p>
      </div>
    </section>
  )
}

export function Rules() {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const { data, error } = useQuery(rulesQuery)
  const mayOperate = useMayOperate()
  const [text, setText] = useState(search.q ?? '')
  const [at, setAt] = useState(0)
  const filter = useRef<HTMLInputElement>(null)

  const all = data?.rules ?? []
  const words = (search.q ?? '').toLowerCase()
  const found = all.filter(({ title, file }) => `${title}\n${file ?? ''}`.toLowerCase().includes(words))
  const shown = found.filter(({ mode }) => search.show === undefined || mode === search.show)
  const title = data ? headingOf(all) : 'Rules'
  useTitle(title)

  const show = (change: Partial<RulesSearch>) =>
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true })
  const write = () => void navigate({ to: '/rules/new' })
  useKeys({
    '/': () => filter.current?.focus(),
    j: () => setAt(Math.min(shown.length - 1, at + 1)),
    k: () => setAt(Math.max(0, at - 1)),
    Enter: () => shown[at] && void navigate({ to: '/rules/$id', params: { id: shown[at].id } }),
    n: () => mayOperate && write(),
  })
  const lag = data?.runner.lag_events ?? 0
  return (
    <div className="rows">
      <div>
        <div className="head">
          <h1 aria-live="polite">{title}</h1>
          <span className="end">
            <button
              type="button"
              className="go"
              disabled={!mayOperate}
              title={mayOperate ? undefined : 'Your key has scope viewer: only operators and admins store rules'}
              onClick={write}
            >
              New rule{!mayOperate && <span className="only-read"> (needs a key of scope operator)</span>} <kbd>n</kbd>
            </button>
          </span>
        </div>
        {data && lag <= usualLag && <p className="quiet lead">{lagText(lag)}</p>}
      </div>
      {lag > usualLag && (
        <p role="status" className="notice">
          {lagText(lag)} They catch up by themselves; until then firings come late.
        </p>
      )}
      {error && (
        <p role="alert" className="notice fault">
          {sentenceOf(error)}
        </p>
      )}
      {data && data.file_faults.length > 0 && (
        <section className="panel list-panel" aria-labelledby="file-faults">
          <header>
            <h2 id="file-faults" className="critical">
              {counted(data.file_faults.length, 'file')} not run
            </h2>
          </header>
          <ul className="rule-faults">
            {data.file_faults.map(({ file, error: fault }) => (
              <li key={file}>
                <b className="mono">
                  <HostileText text={file} max={200} />
                </b>{' '}
                <HostileText text={fault} max={600} />
              </li>
            ))}
          </ul>
        </section>
      )}
      {all.length > 0 && (
        <>
          <div className="chips">
            <FilterField
              field={filter}
              by="title or file"
              value={text}
              onChange={(next) => {
                setText(next)
                setAt(0)
                show({ q: next || undefined })
              }}
            />
            <button
              type="button"
              className="chip"
              aria-pressed={search.show === undefined}
              onClick={() => show({ show: undefined })}
            >
              All <b>{found.length}</b>
            </button>
            {ruleModes.map((mode) => (
              <button
                key={mode}
                type="button"
                className="chip"
                aria-pressed={search.show === mode}
                onClick={() => show({ show: search.show === mode ? undefined : mode })}
              >
                {mode} <b>{found.filter((rule) => rule.mode === mode).length}</b>
              </button>
            ))}
          </div>
          <section className="panel list-panel" aria-label="Rules by title">
            <table className="list">
              <thead>
                <tr>
                  <th>rule</th>
                  <th>mode</th>
                  <th className="only-wide">severity</th>
                  <th>24 h</th>
                  <th>last firing</th>
                  <th className="only-wide">changed</th>
                </tr>
              </thead>
              <tbody>
                {shown.map((rule, index) => (
                  <RuleRow key={rule.id} rule={rule} isAt={index === at} />
                ))}
              </tbody>
            </table>
            {shown.length === 0 && <p className="empty">No rule matches.</p>}
          </section>
        </>
      )}
      {data && all.length === 0 && <Teaching />}
    </div>
  )
}
