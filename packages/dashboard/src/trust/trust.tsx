import { useQuery } from '@tanstack/react-query'
import { type TrustSummary, unknownBecause, WardlineError } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { HostileText } from '../parts/hostile-text.tsx'
import { spanText } from '../parts/span.ts'
import { useNow } from '../parts/time.tsx'
import { call, sentenceOf } from '../service/client.ts'
import { useTheme } from '../shell/theme.ts'
import { useTitle } from '../shell/title.ts'
import { WardlineMark } from '../shell/wardline-mark.tsx'
import { HashCheck } from './hash-check.tsx'
import { ReportCheck } from './report-check.tsx'
import './trust.css'

/** Caches keep a summary for this long. */
const refreshMs = 60_000
/** Three missed refreshes. */
const staleAfterMs = 180_000

const tiers = ['low', 'moderate', 'elevated', 'high', 'critical'] as const

/** Signals by the names of `risk_points`, in order of weight. */
const signals: {
  name: keyof TrustSummary['risk_points']
  what: string
  window: string
  alone: number
}[] = [
  { name: 'breach', what: 'breaches', window: '30 days, halved in weight every 7', alone: 95 },
  { name: 'critical', what: 'critical events', window: '24 hours', alone: 75 },
  { name: 'incident', what: 'older critical events', window: '30 days', alone: 60 },
  { name: 'suspended', what: 'suspended agents, as a share of all', window: 'now', alone: 50 },
  { name: 'injection', what: 'blocked injections', window: '24 hours', alone: 30 },
  { name: 'warning', what: 'warnings', window: '24 hours', alone: 20 },
]

/** Describes why the score is not zero, largest part first. */
function reasonOf({ risk_points }: TrustSummary): string {
  const parts = signals
    .filter(({ name }) => risk_points[name] > 0)
    .sort((one, other) => risk_points[other.name] - risk_points[one.name])
    .map(({ name, what }) => `${counted(risk_points[name], 'point')} from ${what}`)
  return parts.length === 0 ? 'Nothing that counts against it was reported.' : `${parts.join(', ')}.`
}

function Method({ data }: { data: TrustSummary }) {
  return (
    <details className="panel method">
      <summary>How this is computed</summary>
      <p className="quiet">
        Each signal takes a share of what the others left of 100 points, so no signal can push the score past 100 and
        none makes up for another: what was blocked adds points too. Method {data.risk_method}.
      </p>
      <div className="wide" tabIndex={0} role="group" aria-label="Signals">
        <table>
          <thead>
            <tr>
              <th>signal</th>
              <th>window</th>
              <th>alone at most</th>
              <th>points now</th>
            </tr>
          </thead>
          <tbody>
            {signals.map(({ name, what, window, alone }) => (
              <tr key={name}>
                <td>{what}</td>
                <td>{window}</td>
                <td>{alone}</td>
                <td>{data.risk_points[name]}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p className="quiet">
        0 to 20 is low, to 40 moderate, to 60 elevated, to 80 high, above critical. A fleet without agents, or without a
        recent check, has no score.
      </p>
    </details>
  )
}

/** An address of the summary. It is a link only if it is an https URL. */
function Outside({ href, children }: { href: string | null; children: string }) {
  if (href === null || !/^https:\/\//.test(href)) return <HostileText text={children} max={80} />
  return (
    <a href={href} rel="noreferrer noopener" target="_blank">
      <HostileText text={children} max={80} /> ↗
    </a>
  )
}

function Summary({ data }: { data: TrustSummary }) {
  const { risk_score, risk_tier, risk_tier_label, metrics, monitoring, attestations, identity, verification, chain } =
    data
  const unknown = unknownBecause(data)
  const { on_chain } = verification
  const checks = [
    { name: 'Web application', ...verification.scores.wav },
    { name: 'Wallet', ...verification.scores.wv },
  ]
  return (
    <>
      <section className="panel score" aria-label="Risk score">
        <b className={`big ${unknown ? 'quiet' : `tier-${risk_tier}`}`}>{unknown ? '?' : risk_score}</b>
        <div>
          <p>
            <b>{unknown ? 'Unknown risk' : risk_tier_label}</b> <span className="quiet">0 is best, 100 is worst</span>
          </p>
          <div className="scale" role="img" aria-label={unknown ? 'No score' : `${risk_score} of 100`}>
            {tiers.map((tier) => (
              <i key={tier} className={unknown ? 'tier-unknown' : `tier-${tier}`} />
            ))}
            {!unknown && <u style={{ left: `${risk_score}%` }} />}
          </div>
          <p className="quiet">{unknown ?? reasonOf(data)}</p>
        </div>
      </section>
      <Method data={data} />
      <dl className="panel tiles">
        {(
          [
            ['agents watched', monitoring.agents_protected],
            ['active now', monitoring.agents_active],
            ['attempts blocked, 24 h', metrics.blocked_24h],
            ['incidents, 30 days', metrics.runtime_incidents_30d],
          ] as const
        ).map(([name, value]) => (
          <div key={name}>
            <dd>{value.toLocaleString('en')}</dd>
            <dt>{name}</dt>
          </div>
        ))}
      </dl>
      <section className="panel" aria-labelledby="attestations">
        <header>
          <h2 id="attestations">Attestations</h2>
          <span className="quiet">made each week by the operators of this fleet themselves; 100 is the best score</span>
        </header>
        {attestations.length === 0 ? (
          <p className="empty">None yet: the first one is made once an agent is watched, then one each week.</p>
        ) : (
          <div className="wide" tabIndex={0} role="group" aria-label="List of attestations">
            <table>
              <thead>
                <tr>
                  <th>week</th>
                  <th>what</th>
                  <th>score</th>
                  <th>proof</th>
                </tr>
              </thead>
              <tbody>
                {attestations.map((item) => (
                  <tr key={item.hash_preview + item.at}>
                    <td title={item.at} className="week">
                      {item.period}
                    </td>
                    <td>
                      <HostileText text={item.title} />
                      <p className="quiet">
                        <HostileText text={item.summary} />
                      </p>
                    </td>
                    <td className="week">{item.score} of 100</td>
                    <td className="mono" title={item.hash}>
                      <HashCheck item={item} />
                      {item.on_chain ? (
                        <Outside
                          href={item.on_chain.explorer_url}
                        >{`${item.hash_preview} on ${item.on_chain.namespace}${item.on_chain.sink ? `, as ${item.on_chain.sink}` : ''}`}</Outside>
                      ) : (
                        `${item.hash_preview} · not on a chain`
                      )}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </section>
      <section className="panel" aria-labelledby="verification">
        <header>
          <h2 id="verification">Verification</h2>
          <Outside href={verification.spec_url}>ERC-8126</Outside>
          <span className="quiet">
            <HostileText text={chain.erc8126_label} />
            {verification.self_attested && ': the service scored itself; 0 is the best score'}
          </span>
        </header>
        <table>
          <tbody>
            {checks.map(({ name, applicable, risk_score: score, notes }) => (
              <tr key={name}>
                <td>{name}</td>
                <td>{applicable ? score : 'unknown'}</td>
                <td className="quiet">
                  <HostileText text={notes} />
                </td>
              </tr>
            ))}
            {verification.self_attested && (
              <tr>
                <td>Both together</td>
                <td>{verification.unified_risk_score ?? 'unknown'}</td>
                <td className="quiet" title={verification.checked_at}>
                  checked {verification.checked_at?.slice(0, 10)}
                </td>
              </tr>
            )}
            {on_chain.request_hash !== null && (
              <tr>
                <td>On a chain</td>
                <td>posted</td>
                <td className="quiet" title={on_chain.request_hash}>
                  {on_chain.submitted_at?.slice(0, 10)}: <Outside href={on_chain.request_explorer_url}>request</Outside>{' '}
                  <Outside href={on_chain.response_explorer_url}>response</Outside>, by the operators themselves
                  <ReportCheck posted={on_chain} />
                </td>
              </tr>
            )}
            <tr>
              <td>Identity</td>
              <td>{identity.registered ? 'registered' : 'none'}</td>
              <td className="quiet">
                {identity.registered ? (
                  <Outside
                    href={identity.registry_explorer_url}
                  >{`${identity.name}, agent ${identity.agent_id}`}</Outside>
                ) : (
                  'No on-chain identity configured.'
                )}
              </td>
            </tr>
          </tbody>
        </table>
      </section>
    </>
  )
}

/** Public page for people who do not know Wardline. It shows only the public summary. */
export function Trust() {
  const now = useNow()
  const [theme, changeTheme] = useTheme()
  const { data, error } = useQuery({
    queryKey: ['trust'],
    queryFn: ({ signal }) => call('getTrust', { signal }),
    refetchInterval: refreshMs,
    retry: false,
  })
  useTitle(data ? `${data.identity.name}: ${unknownBecause(data) ? 'unknown risk' : data.risk_tier_label}` : 'Trust')
  const age = data ? Math.max(0, now - Date.parse(data.generated_at)) : 0
  const isOld = age > staleAfterMs
  const isOff = error instanceof WardlineError && error.status === 503
  return (
    <main className="trust rows">
      <div className="chips">
        <h1 className="brand">
          <WardlineMark /> {data ? <HostileText text={data.identity.name} max={60} /> : 'Wardline'}
        </h1>
        <span className="end quiet">
          {data && `made ${spanText(age)} ago, renewed every ${spanText(refreshMs)} `}
          <button type="button" className="plain" onClick={changeTheme}>
            Theme: {theme}
          </button>
        </span>
      </div>
      {!data && error && (
        <p role="alert">
          {isOff
            ? 'The operators of this service do not publish a summary: TRUST_PUBLIC_ENABLED is false.'
            : sentenceOf(error)}
        </p>
      )}
      {data && isOld && (
        <p className="notice" role="status">
          This summary is {spanText(age)} old: the service does not answer. What follows was true then.
        </p>
      )}
      {data && <Summary data={data} />}
      {!isOff && (
        <p className="quiet">
          No names, texts or addresses of agents are shown here. <a href="/api/public/trust">JSON</a> ·{' '}
          <a href="/trust/badge.svg">Badge</a> · <a href="/trust/badge.json">Badge for shields.io</a>
        </p>
      )}
    </main>
  )
}
