import { randomUUID } from 'node:crypto'
import type { Client } from '@wardline/contract'
import { argsHash } from '@wardline/policy'
import type { Act, PastAgent, PastFleet } from './past-fleet.ts'

const secondMs = 1_000
const minuteMs = 60 * secondMs

const refundRule = 'Refunds above 100 are asked'
const policyText = `title: 'Demo: payments'
mode: enforce
for: { tags: ['team:payments'] }
rules:
  - title: ${refundRule}
    decision: ask
    wait: 12h
    match: { tool: refund }
    when: { 'amount|gt': 100 }
    cases:
      match: [{ tool: refund, args: { amount: 240 } }]
      no_match: [{ tool: refund, args: { amount: 12 } }]
  - title: Invoices are never deleted
    decision: deny
    match: { tool: invoice_delete }
`

interface Refund {
  customer: string
  amount: number
  reason: string
}

/** A policy of the demo, refunds that an operator decided, and one that waits when the present begins. */
export function refunds(
  fleet: PastFleet,
  agent: PastAgent,
  { storedAt, approvedAt, deniedAt, pendingAt }: Record<'storedAt' | 'approvedAt' | 'deniedAt' | 'pendingAt', number>,
): Act[] {
  const { operator } = fleet
  const params = { instanceId: agent.member.id }
  let policy = { id: '', version: 0 }
  let onCall: Client
  let asking: Client
  /** Asks as the agent's client does; the same attempt takes what was approved. */
  const ask = (refund: Refund, attempt: string, sessionId = agent.sessionId) => {
    const args = { currency: 'EUR', ...refund }
    return asking('requestApproval', {
      params,
      body: {
        attempt,
        session_id: sessionId,
        tool: 'refund',
        args_sha256: argsHash(args)!,
        args: JSON.stringify(args),
        policy_id: policy.id,
        policy_version: policy.version,
        rule: refundRule,
        approvals: 1,
        wait_seconds: 43_200,
      },
    })
  }
  const decided = (at: number, refund: Refund, decision: { decision: 'approve' | 'deny'; reason?: string }): Act[] => {
    const attempt = randomUUID()
    let id = ''
    // The agent may begin another session while it waits.
    let sessionId = ''
    return [
      {
        at,
        async run() {
          sessionId = agent.sessionId
          id = (await ask(refund, attempt, sessionId)).id
        },
      },
      {
        at: at + 3 * minuteMs,
        async run() {
          await onCall('decideApproval', { params: { id }, body: decision })
        },
      },
      {
        at: at + 3 * minuteMs + secondMs,
        async run() {
          await ask(refund, attempt, sessionId)
        },
      },
    ]
  }
  return [
    {
      at: storedAt,
      async run() {
        policy = await operator('createPolicy', { body: { policy: policyText } })
        const newClient = async (body: { scope: 'operator' | 'agent'; name: string; instances?: string[] }) =>
          fleet.clientOf((await operator('createKey', { body })).key)
        onCall = await newClient({ scope: 'operator', name: 'Demo: on-call' })
        // A key cannot decide what it asked for: the admin who looks at the demo decides the one that waits.
        asking = await newClient({ scope: 'agent', instances: [agent.member.id], name: `Demo: ${agent.member.id}` })
      },
    },
    ...decided(approvedAt, { customer: 'Lindqvist AB', amount: 240, reason: 'Parcel lost' }, { decision: 'approve' }),
    ...decided(
      deniedAt,
      { customer: 'M. Osei', amount: 1_900, reason: 'Asked for in a mail' },
      { decision: 'deny', reason: 'The order does not exist: ask the customer for the invoice first.' },
    ),
    {
      at: pendingAt,
      async run() {
        await ask({ customer: 'Delgado & Sons', amount: 320, reason: 'Delivered twice' }, randomUUID())
      },
    },
  ]
}
