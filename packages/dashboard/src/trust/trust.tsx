import { keccak_256 } from '@noble/hashes/sha3.js'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { scoredOver, type TrustSummary, unknownBecause, verificationTypes, WardlineError } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { sessionSecret } from '../data/storage.ts'
import { useTheme } from '../shell/theme.ts'
import { WardlineMark } from '../shell/wardline-mark.tsx'
import { Button } from '../ui/button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { Fault, Notice, Panel, Stat, Stats, useTitle } from '../ui/panel.tsx'
import { spanText } from '../ui/span.ts'
import { DataTable, Facts } from '../ui/table.tsx'
import { useNow } from '../ui/time.tsx'
import { Attestations, AttestationsByOthers } from './attestations.tsx'
import { Identity } from './identity.tsx'
import { Check, Directed, Noted, Outside } from './parts.tsx'
import css from './trust.module.css'

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
  { name: 'breach', what: 'breaches', window: '30 days, weight halves every 7 days', alone: 95 },
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
  return parts.length === 0 ? 'No risk signals.' : `${parts.join(', ')}.`
}

function Score({ data }: { data: TrustSummary }) {
  const { risk_score, risk_tier_label } = data
  const unknown = unknownBecause(data)
  return (
    <Panel label="Risk score">
      <div className={css.score}>
        <b className={unknown && 'quiet'}>{unknown ? '?' : risk_score}</b>
        <div>
          <p>
            <Noted note="(0 is best)">
              <b>{unknown ? 'Unknown risk' : risk_tier_label}</b>
            </Noted>
          </p>
          <div className={css.scale} role="img" aria-label={unknown ? 'No score' : `${risk_score} of 100`}>
            {tiers.map((tier) => (
              <i key={tier} className={css[unknown ? 'unknown' : tier]} />
            ))}
            {!unknown && <u style={{ left: `${risk_score}%` }} />}
          </div>
          <p className="quiet">{unknown ?? reasonOf(data)}</p>
        </div>
      </div>
    </Panel>
  )
}

const Method = ({ data: { risk_method, risk_points } }: { data: TrustSummary }) => (
  <details className={css.method}>
    <summary>How the score is computed</summary>
    <p className="quiet">
      Each signal takes a share of the remaining points, so the score cannot exceed 100 and no signal offsets another:
      blocked attacks add points too. Method {risk_method}.
    </p>
    <DataTable
      label="Signals"
      empty=""
      isStacked={false}
      rows={signals}
      rowKey={({ name }) => name}
      columns={[
        { name: 'Signal', cell: ({ what }) => what },
        { name: 'Window', cell: ({ window }) => window },
        { name: 'Maximum points', kind: 'number', cell: ({ alone }) => alone },
        { name: 'Points now', kind: 'number', cell: ({ name }) => risk_points[name] },
      ]}
    />
    <p className="quiet">
      Up to 20 is low, up to 40 moderate, up to 60 elevated, up to 80 high, above 80 critical. Without agents, or
      without a recent check, there is no score.
    </p>
  </details>
)

type Posted = TrustSummary['verification']['on_chain']

/** Reads the posted report, and checks that its risk and its response agree: the registry's scale is inverted. */
function resultOf({ report = '', request_hash }: Posted): string {
  try {
    const said = JSON.parse(report) as Record<string, unknown>
    const { unified_risk_score: risk, response } = said
    const isRight = said.request_hash === request_hash && typeof risk === 'number' && response === 100 - risk
    return isRight
      ? `Report consistent: risk ${risk} (0 is best), posted as response ${response} (100 is best)`
      : 'Report contradicts itself'
  } catch {
    return 'Report is not valid JSON'
  }
}

/** Computes the hash of the posted report, to compare with the response hash that an explorer shows. */
const ReportCheck = ({ posted }: { posted: Posted }) => (
  <Check
    about="the posted report"
    run={() => (
      <>
        {resultOf(posted)}. Response hash, to compare in the explorer:{' '}
        <HostileText text={`0x${bytesToHex(keccak_256(utf8ToBytes(posted.report ?? '')))}`} max={66} />
      </>
    )}
  />
)

function Verification({ data: { verification, chain } }: { data: TrustSummary }) {
  const { on_chain, scores, self_attested, checked_at, scored = [], not_checked = [] } = verification
  const scoreOf = ({ applicable, risk_score, notes, error, error_code }: (typeof scores)['wav']) => (
    <Noted
      note={
        <>
          <HostileText text={notes} />
          {error && ` Error ${error} (${error_code}).`}
        </>
      }
    >
      <Directed score={applicable ? risk_score : null} best={0} />
    </Noted>
  )
  const over = scored.length === 0 ? '' : `${scoredOver(scored)}, `
  const combined = (
    <Noted title={checked_at ?? undefined} note={`${over}checked ${checked_at?.slice(0, 10)}`}>
      <Directed score={verification.unified_risk_score} best={0} />
    </Noted>
  )
  const others = not_checked.filter((type) => type !== 'wav' && type !== 'wv')
  const posted = (
    <>
      posted{' '}
      <span className="quiet" title={on_chain.request_hash ?? undefined}>
        {on_chain.submitted_at?.slice(0, 10)} by the operators:{' '}
        <Outside href={on_chain.request_explorer_url} text="request" />{' '}
        <Outside href={on_chain.response_explorer_url} text="response" />
      </span>
      <ReportCheck posted={on_chain} />
    </>
  )
  return (
    <Panel
      title="Verification"
      note={
        <>
          <HostileText text={chain.erc8126_label} />
          {self_attested && ': self-assessed by this service'}
        </>
      }
      end={<Outside href={verification.spec_url} text="ERC-8126" />}
    >
      <div className={css.checks}>
        <Facts
          facts={[
            [verificationTypes.wav, scoreOf(scores.wav)],
            [verificationTypes.wv, scoreOf(scores.wv)],
            ['Not checked', others.length > 0 && others.map((type) => verificationTypes[type]).join(', ')],
            ['Combined', self_attested && combined],
            ['On-chain', on_chain.request_hash !== null && posted],
          ]}
        />
      </div>
    </Panel>
  )
}

function Summary({ data }: { data: TrustSummary }) {
  const { metrics, monitoring, attestations_by_others } = data
  return (
    <>
      <Score data={data} />
      <Method data={data} />
      <Stats label="Fleet">
        <Stat name="Agents monitored" value={monitoring.agents_protected.toLocaleString('en')} />
        <Stat name="Active now" value={monitoring.agents_active.toLocaleString('en')} />
        <Stat name="Attempts blocked, 24 h" value={metrics.blocked_24h.toLocaleString('en')} />
        <Stat name="Incidents, 30 days" value={metrics.runtime_incidents_30d.toLocaleString('en')} />
      </Stats>
      <Identity data={data} />
      <Attestations data={data} />
      {attestations_by_others && <AttestationsByOthers items={attestations_by_others} />}
      <Verification data={data} />
    </>
  )
}

/** Public page for people who do not know Wardline. It shows only the public summary. */
export function Trust() {
  const now = useNow()
  const [theme, changeTheme] = useTheme()
  const { data, error } = useQuery({
    queryKey: queryKeys.trust,
    queryFn: ({ signal }) => call('getTrust', { signal }),
    refetchInterval: refreshMs,
    retry: false,
  })
  useTitle(data ? `${data.identity.name}: ${unknownBecause(data) ? 'unknown risk' : data.risk_tier_label}` : 'Trust')
  const age = data ? Math.max(0, now - Date.parse(data.generated_at)) : 0
  const isOff = error instanceof WardlineError && error.status === 503
  return (
    <main className={`stack ${css.trust}`}>
      <div className="chips">
        <h1 className={`chips ${css.brand}`}>
          <WardlineMark /> {data ? <HostileText text={data.identity.name} max={60} /> : 'Wardline'}
        </h1>
        <span className="end quiet">
          {data && `Updated ${spanText(age)} ago, refreshed every ${spanText(refreshMs)} `}
          {sessionSecret() !== undefined && <Link to="/">Dashboard</Link>}
          <Button kind="plain" onClick={changeTheme}>
            Theme: {theme}
          </Button>
        </span>
      </div>
      {!data && (
        <Fault of={isOff ? 'This service does not publish a trust summary: TRUST_PUBLIC_ENABLED is false.' : error} />
      )}
      {data && age > staleAfterMs && (
        <Notice>
          <p role="status">No answer from the service for {spanText(age)}. Data may be outdated.</p>
        </Notice>
      )}
      {data && <Summary data={data} />}
      {!isOff && (
        <p className="quiet">
          Names, texts and addresses of agents are never published. <a href="/api/public/trust">JSON</a> ·{' '}
          <a href="/trust/badge.svg">Badge</a> · <a href="/trust/badge.json">Badge for shields.io</a>
        </p>
      )}
    </main>
  )
}
