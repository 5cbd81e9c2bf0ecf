import type { Static } from 'typebox'
import { canonicalJson } from './canonical-json.ts'
import { define } from './endpoint.ts'
import { Count, choice, nullable, Timestamp } from './fields.ts'
import { AttestationUid, SignedAttestation } from './signed-attestation.ts'
import { Type } from './type.ts'

const riskTiers = ['low', 'moderate', 'elevated', 'high', 'critical'] as const
export const erc8004Statuses = ['live', 'registering', 'planned'] as const
export const erc8126Statuses = ['live', 'enterprise', 'planned'] as const

/** Error codes of ERC-8126 that the service gives. */
export const erc8126Errors = {
  InvalidAddress: '0x01',
  InvalidURL: '0x02',
  AgentNotFound: '0x03',
  VerificationFailed: '0x04',
  ProviderUnavailable: '0x07',
} as const
export type Erc8126Error = keyof typeof erc8126Errors

/** The types of verification in ERC-8126. The service checks the first two. */
export const verificationTypes = {
  wav: 'Web application',
  wv: 'Wallet',
  etv: 'Token contract',
  mcv: 'Media',
  scv: 'Solidity code',
} as const
export type VerificationType = keyof typeof verificationTypes

const Score = Type.Integer({ minimum: 0, maximum: 100 })
const Text = Type.String()
const Url = Type.String({ format: 'uri' })

const Network = Type.Object(
  {
    id: Type.String({ description: 'CAIP-2 id, such as eip155:84532' }),
    name: Type.String({ description: 'The id, where the chain is not known' }),
    is_test_network: nullable(
      Type.Boolean({ description: 'Entries there cost nothing and can disappear; null where the chain is not known' }),
    ),
    explorer_url: Type.String({ format: 'uri', description: 'Has pages /address/… and /tx/…' }),
  },
  { description: 'The chain that an entry is on' },
)
export type Network = Static<typeof Network>

const AttestationItem = Type.Object({
  type: Text,
  title: Text,
  summary: Text,
  hash_preview: Type.String({ description: 'First six and last four characters of the SHA-256' }),
  at: Timestamp,
  namespace: Text,
  tag: Text,
  score: Type.Integer({ minimum: 0, maximum: 100, description: 'Security score: 100 is the best' }),
  period: Type.String({ description: 'ISO 8601 week, in UTC' }),
  hash: Type.String({
    description:
      '0x and the SHA-256 of namespace, type, title, summary, tag, score, at and period as canonical JSON (RFC 8785)',
  }),
  off_chain: Type.Optional(
    Type.Object(
      {
        uid: AttestationUid,
        attester: Type.String({ description: 'Address of the key that signed it' }),
        chain: Type.String({ description: 'CAIP-2 id of the domain of the signature' }),
        contract: Type.String({ description: 'Address of EAS, which the domain of the signature names' }),
        url: Type.String({ description: 'Path of the signed attestation at this service' }),
      },
      {
        description:
          'The signed off-chain attestation of EAS (EIP-712); absent from attestations of versions that did not sign',
      },
    ),
  ),
  on_chain: Type.Optional(
    Type.Object(
      {
        uid: Text,
        tx_hash: Text,
        explorer_url: Url,
        namespace: Text,
        tag: Text,
        score: Score,
        sink: Type.Optional(
          Type.Union([Type.Literal('feedback'), Type.Literal('validation')], {
            description: 'Registry of ERC-8004 that has it; without, it is at EAS',
          }),
        ),
        chain: Type.Optional(Type.String({ description: 'CAIP-2 id, such as eip155:84532' })),
        contract: Type.Optional(Type.String({ description: 'Address of the registry, or of EAS' })),
        attester: Type.Optional(Type.String({ description: 'Address of the wallet of this service that signed it' })),
        network: Type.Optional(Network),
        attestation_url: Type.Optional(
          Type.String({ format: 'uri', description: 'Its page at the explorer of EAS, where there is one' }),
        ),
      },
      { description: 'Present after submission; for score, higher is better' },
    ),
  ),
})

const AttestationByOther = Type.Object({
  sink: Type.Union([Type.Literal('eas'), Type.Literal('feedback')], {
    description: 'Where it is: EAS, or the reputation registry of ERC-8004',
  }),
  attester: Type.String({ description: 'Address of the account that made it' }),
  uid: Type.String({ description: 'Uid of EAS, or the index of the feedback' }),
  at: nullable(Type.String({ format: 'date-time', description: 'Null for feedback, whose registry stores no time' })),
  seen_at: Type.String({ format: 'date-time', description: 'When this service first read it' }),
  contract: Text,
  network: Network,
  explorer_url: Type.String({ format: 'uri', description: 'Page of the transaction; for feedback, of the registry' }),
  attestation_url: Type.Optional(
    Type.String({ format: 'uri', description: 'Its page at the explorer of EAS, where there is one' }),
  ),
  schema: Type.Optional(Type.String({ description: 'Schema uid of EAS' })),
  hash: Type.Optional(Text),
  namespace: Type.Optional(Type.String({ description: 'First tag of feedback' })),
  tag: Type.Optional(Type.String({ description: 'Second tag of feedback' })),
  period: Type.Optional(Text),
  value: Type.Optional(Type.String({ description: 'Whole number. What is good is for the attester to define' })),
  decimals: Type.Optional(
    Type.Integer({ minimum: 0, maximum: 18, description: 'How many digits of value are decimals' }),
  ),
})

const VerificationScore = Type.Object({
  applicable: Type.Boolean({ description: 'false: there is nothing to check, or it could not be checked' }),
  risk_score: Type.Integer({ minimum: 0, maximum: 100, description: '0 is the best; means nothing unless applicable' }),
  notes: Text,
  error: Type.Optional(
    choice(Object.keys(erc8126Errors) as Erc8126Error[], 'Why there is no score, by the name that ERC-8126 gives it'),
  ),
  error_code: Type.Optional(choice(Object.values(erc8126Errors), 'The code of `error` in ERC-8126')),
})

const Points = Type.Object(
  { breach: Score, critical: Score, incident: Score, suspended: Score, injection: Score, warning: Score },
  {
    description:
      'Points of the score by what explains them, with the sum risk_score: breaches of 30 days, which halve in weight every 7 days; critical events of 24 hours; other incidents of 30 days; agents suspended now; injection blocks and warnings of 24 hours',
  },
)

export const TrustSummary = Type.Object({
  generated_at: Timestamp,
  risk_score: Type.Integer({ minimum: 0, maximum: 100, description: '0 is the best' }),
  risk_tier: choice(riskTiers),
  risk_tier_label: Text,
  risk_points: Points,
  risk_method: Type.Literal('wardline-headroom-1'),
  monitoring: Type.Object({
    scout_active: Type.Boolean(),
    agents_protected: Count,
    agents_active: Count,
    agents_suspended: Count,
    last_scan_at: nullable(Timestamp),
    last_scan_relative: Text,
    last_heartbeat_at: nullable(Timestamp),
  }),
  metrics: Type.Object({
    injection_blocks_24h: Count,
    runtime_incidents_30d: Count,
    events_today: Count,
    threats_24h: Count,
    blocked_24h: Count,
  }),
  attestations: Type.Array(AttestationItem),
  attestations_by_others: Type.Optional(
    Type.Array(AttestationByOther, {
      description:
        'What the accounts of TRUST_OTHER_ATTESTERS state on the chain about this deployment, with their texts cut; without hash, namespace and value, its schema is unknown',
    }),
  ),
  identity: Type.Object({
    registered: Type.Boolean(),
    slug: Text,
    name: Text,
    agent_id: nullable(Text),
    agent_registry: nullable(Text),
    wallet_address: nullable(Text),
    registry_explorer_url: Url,
    register_tx_url: nullable(Url),
    status: Type.String({
      description:
        'live: the registry names the wallet as owner or agent wallet of the agent; unverified: it names another; claimed: configured, not checked on the chain; pending: none configured',
    }),
    network: Type.Optional(Network),
  }),
  verification: Type.Object({
    unified_risk_score: Type.Union([Score, Type.Null()], {
      description:
        'Mean of the scores that apply, null when none does; before the first verification the runtime risk score',
    }),
    unified_risk_tier: nullable(choice(riskTiers)),
    unified_risk_tier_label: Text,
    scores: Type.Object({ wav: VerificationScore, wv: VerificationScore }),
    subject: Type.Optional(
      choice(
        ['agent', 'configured_address'],
        'What was verified: the on-chain agent, by its registration file; or only the configured address of the service',
      ),
    ),
    scored: Type.Optional(
      Type.Array(choice(['wav', 'wv']), {
        description: 'What unified_risk_score is the mean of, once there are scores',
      }),
    ),
    not_checked: Type.Optional(
      Type.Array(choice(Object.keys(verificationTypes) as VerificationType[]), {
        description: 'Types of ERC-8126 that apply to the subject and have no score',
      }),
    ),
    self_attested: Type.Optional(
      Type.Literal(true, { description: 'The service scored itself; present once there are scores' }),
    ),
    checked_at: Type.Optional(Timestamp),
    on_chain: Type.Object({
      request_hash: nullable(Text),
      request_tx_hash: nullable(Text),
      response_tx_hash: nullable(Text),
      request_explorer_url: nullable(Text),
      response_explorer_url: nullable(Text),
      submitted_at: nullable(Timestamp),
      validation_registry: Type.Optional(Text),
      report: Type.Optional(
        Type.String({ description: 'JSON with what was posted; its keccak256 is the response hash on the chain' }),
      ),
    }),
    spec_url: Url,
  }),
  chain: Type.Object({ erc8004_status: Text, erc8004_label: Text, erc8126_status: Text, erc8126_label: Text }),
  source: Type.Literal('wardline'),
})
export type TrustSummary = Static<typeof TrustSummary>

export type Attestation = TrustSummary['attestations'][number]
export type AttestationByOther = Static<typeof AttestationByOther>

/** Returns the text that is hashed for an attestation. The service, the CLI and the dashboard all use it. */
export function attestationText(attestation: Pick<Attestation, 'at' | HashedField>): string {
  const { namespace, type, title, summary, tag, score, at, period } = attestation
  return canonicalJson({ namespace, type, title, summary, tag, score, at, period })
}
type HashedField = 'namespace' | 'type' | 'title' | 'summary' | 'tag' | 'score' | 'period'

/**
 * Returns why the score is meaningless, if it is: the score 0 of an unmonitored fleet must not look like a good one.
 */
export function unknownBecause({ monitoring }: Pick<TrustSummary, 'monitoring'>): string | undefined {
  if (monitoring.agents_protected === 0) return 'No agent is monitored yet.'
  if (!monitoring.scout_active) return 'The monitor has not checked the fleet lately.'
  return undefined
}

/** Says over what a unified score is computed, as the rest of a sentence. */
export function scoredOver(scored: readonly VerificationType[]): string {
  const names = scored.map((type) => verificationTypes[type].toLowerCase())
  return names.length === 1 ? `over the ${names[0]} only` : `over the ${names.join(' and the ')}`
}

/** https://eips.ethereum.org/EIPS/eip-8004 */
export const registrationType = 'https://eips.ethereum.org/EIPS/eip-8004#registration-v1'

const AgentRegistration = Type.Object({
  type: Type.Literal(registrationType),
  name: Text,
  description: Text,
  image: Type.Optional(Url),
  services: Type.Array(Type.Object({ name: Text, endpoint: Url })),
  x402Support: Type.Boolean(),
  active: Type.Boolean(),
  registrations: Type.Array(
    Type.Object({
      agentId: Type.Union([Type.Integer({ minimum: 0 }), Text], {
        description: 'A number; above 2^53 a decimal string',
      }),
      agentRegistry: Text,
    }),
  ),
  supportedTrust: Type.Array(Text),
})
export type AgentRegistration = Static<typeof AgentRegistration>

const off = 'Disabled by TRUST_PUBLIC_ENABLED=false'

// https://shields.io/badges/endpoint-badge
const BadgeData = Type.Object({
  schemaVersion: Type.Literal(1),
  label: Text,
  message: Text,
  color: Type.String({ description: 'Six hexadecimal digits' }),
  isError: Type.Boolean({ description: 'The score is unknown' }),
})
export type BadgeData = Static<typeof BadgeData>

const replyHeaders = { 'cache-control': '`public, max-age=60`; `no-store` where the score is unknown' }

export const trustEndpoints = {
  getAgentRegistration: define({
    method: 'GET',
    path: '/.well-known/agent-registration.json',
    access: 'open',
    feature: 'trust',
    summary: 'Get the registration file of the on-chain identity (ERC-8004)',
    status: 200,
    reply: AgentRegistration,
    failures: { 404: off },
  }),
  getTrust: define({
    method: 'GET',
    path: '/api/public/trust',
    access: 'open',
    feature: 'trust',
    summary: 'Get the public posture, as aggregates',
    status: 200,
    reply: TrustSummary,
    failures: { 503: off },
  }),
  getAttestation: define({
    method: 'GET',
    path: '/api/public/trust/attestations/:uid',
    access: 'open',
    feature: 'trust',
    summary: 'Get a signed off-chain attestation (EAS)',
    params: Type.Object({ uid: AttestationUid }),
    status: 200,
    reply: SignedAttestation,
    failures: { 404: `No signed attestation has this uid, or ${off.toLowerCase()}` },
  }),
  getTrustBadge: define({
    method: 'GET',
    path: '/trust/badge.svg',
    access: 'open',
    feature: 'trust',
    summary: 'Get the risk score as a badge',
    status: 200,
    replyHeaders,
    file: { contentType: 'image/svg+xml', description: 'The score, or that it is unknown' },
    failures: { 404: `${off}; the body is a badge that says so` },
  }),
  getTrustBadgeData: define({
    method: 'GET',
    path: '/trust/badge.json',
    access: 'open',
    feature: 'trust',
    summary: 'Get the risk score in the format of endpoint badges of shields.io',
    status: 200,
    replyHeaders,
    reply: BadgeData,
    failures: { 404: off },
  }),
}
