import { randomUUID } from 'node:crypto'
import type { Approval, ApprovalAnswer, ApprovalDecision, NewApproval } from '@wardline/contract'
import type { TestService } from './service.ts'

/** The lower-case hex of a number, as a hash of arguments. */
export const hashOf = (number: number): string => number.toString(16).padStart(64, '0')

/** A call that asks for an approval. */
export const askingCall = (changes: Partial<NewApproval> = {}): NewApproval => ({
  attempt: randomUUID(),
  session_id: 'session-1',
  tool: 'send_email',
  args_sha256: hashOf(1),
  args: '{"to":"a@example.com"}',
  policy_id: '01980000-0000-7000-8000-00000000a001',
  policy_version: 3,
  rule: 'Mail outside the company',
  approvals: 1,
  wait_seconds: 600,
  ...changes,
})

export const askApproval = (
  service: Pick<TestService, 'call'>,
  body: NewApproval,
  { id = 'agent-1', ...options }: { id?: string; key?: string } = {},
) => service.call<ApprovalAnswer & { error: string }>('POST', `/api/instances/${id}/approvals`, { ...options, body })

export const decideApproval = (
  service: Pick<TestService, 'call'>,
  id: string,
  key: string,
  body: ApprovalDecision = { decision: 'approve' },
) => service.call<Approval & { error: string }>('POST', `/api/approvals/${id}`, { key, body })
