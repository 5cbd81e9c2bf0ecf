import { useQuery } from '@tanstack/react-query'
import { type TrustSummary, WardlineError } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { HostileText } from '../parts/hostile-text.tsx'
import { spanText } from '../parts/span.ts'
import { Time, useNow } from '../parts/time.tsx'
import { call, sentenceOf } from '../service/client.ts'
import { useTheme } from '../shell/theme.ts'
import { useTitle } from '../shell/title.ts'
import { WardlineMark } from '../shell/wardline-mark.tsx'
import './trust.css'

/** The service makes a summary at most this often. */
const refreshMs = 60_000

const tiers = ['low', 'moderate', 'elevated', 'high', 'critical'] as const

/** Why the score is what it is, from the counts that it is made of. */
function reasonOf({ metrics, monitoring }: TrustSummary): string {
  const parts = [
    metrics.runtime_incidents_30d > 0 ? `${counted(metrics.runtime_incidents_30d, 'incident')} in 30 days` : '',
    metrics.injection_blocks_24h > 0 ? `${counted(metrics.injection_blocks_24h, 'blocked injection')} in 24 hours` : '',
    metrics.threats_24h > 0 ? `${counted(metrics.threats_24h, 'threat')} in 24 hours` : '',
    monitoring.agents_suspended > 0 ? `${counted(monitoring.agents_suspended, 'agent')} suspended now` : '',
  ].filter(Boolean)
  return parts.length === 0 ? 'Nothing that counts against it was reported.' : `It counts ${parts.join(', ')}.`
}

/** An address of the summary, shown as a link only if it leads to a web page. */
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
  const checks = [
    { name: 'Web application', ...verification.scores.wav },
    { name: 'Wallet', ...verification.scores.wv },
  ]
  return (
    <>
      <section className="panel score" aria-label="Risk score">
        <b className={`big tier-${risk_tier}`}>{risk_score}</b>
        <div>
          <p>
            <b>{risk_tier_label}</b> <span className="quiet">0 is best, 100 is worst</span>
          </p>
          <div className="scale" role="img" aria-label={`${risk_score} of 100`}>
            {tiers.map((tier) => (
              <i key={tier} className={`tier-${tier}`} />
            ))}
            <u style={{ left: `${risk_score}%` }} />
          </div>
          <p className="quiet">{reasonOf(data)}</p>
        </div>
      </section>
      {!monitoring.scout_active && (
        <p className="notice" role="status">
          The monitor itself has not swept the fleet lately: what follows may be old.
        </p>
      )}
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
          <span className="quiet">statements about a week, with the start and end of their SHA-256</span>
        </header>
        {attestations.length === 0 ? (
          <p className="empty">None yet: the first one is made when the service has watched for a week.</p>
        ) : (
          <div className="wide">
            <table>
              <thead>
                <tr>
                  <th>when</th>
                  <th>what</th>
                  <th>proof</th>
                </tr>
              </thead>
              <tbody>
                {attestations.map((item) => (
                  <tr key={item.hash_preview + item.at}>
                    <td>
                      <Time at={item.at} />
                    </td>
                    <td>
                      <HostileText text={item.title} />
                      <p className="quiet">
                        <HostileText text={item.summary} />
                      </p>
                    </td>
                    <td className="mono">
                      {item.on_chain ? (
                        <Outside
                          href={item.on_chain.explorer_url}
                        >{`${item.hash_preview} on ${item.on_chain.namespace}`}</Outside>
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

/** For people who know nothing of Wardline: only what the public summary says. */
export function Trust() {
  const now = useNow()
  const [theme, changeTheme] = useTheme()
  const { data, error } = useQuery({
    queryKey: ['trust'],
    queryFn: ({ signal }) => call('getTrust', { signal }),
    refetchInterval: refreshMs,
    retry: false,
  })
  useTitle(data ? `${data.identity.name}: ${data.risk_tier_label}` : 'Trust')
  const isOff = error instanceof WardlineError && error.status === 503
  return (
    <main className="trust rows">
      <div className="chips">
        <h1 className="brand">
          <WardlineMark /> {data ? <HostileText text={data.identity.name} max={60} /> : 'Wardline'}
        </h1>
        <span className="end quiet">
          {data && `made ${spanText(now - Date.parse(data.generated_at))} ago `}
          <button type="button" className="plain" onClick={changeTheme}>
            Theme: {theme}
          </button>
        </span>
      </div>
      {!data && error && (
        <p role="alert">{isOff ? 'The operators of this service do not publish a summary.' : sentenceOf(error)}</p>
      )}
      {data && <Summary data={data} />}
      <p className="quiet">
        No names, texts or addresses of agents are shown here. The same as <a href="/api/public/trust">JSON</a>.
      </p>
    </main>
  )
}
