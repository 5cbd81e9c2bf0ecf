import type * as contract from '@wardline/contract'
import { endpoints, limits, suspendedHeader as sentHeader, severities } from '@wardline/contract'
import { expect, expectTypeOf, test } from 'vitest'
import type { NewEvent } from './events.ts'
import type { Severity } from './monitor.ts'
import type { Question } from './policy/approvals.ts'
import type { ReceivedSet } from './policy/received-set.ts'
import {
  type ControlMessage,
  type EventBatchReply,
  type Heartbeat,
  type KillSwitchState,
  stateFromStream,
  suspendedHeader,
} from './wire.ts'

// This package copies the parts of the contract that it needs, so that agents install only one package.

test('sends types that the service accepts', () => {
  expectTypeOf<Heartbeat>().toExtend<contract.Heartbeat>()
  expectTypeOf<NewEvent>().toExtend<contract.NewEvent>()
  expectTypeOf<Question & { attempt: string }>().toExtend<contract.NewApproval>()
  expectTypeOf<keyof Heartbeat>().toEqualTypeOf<keyof contract.Heartbeat>()
  expectTypeOf<keyof NewEvent | 'ip_address'>().toEqualTypeOf<keyof contract.NewEvent>()
  expectTypeOf<Severity>().toEqualTypeOf<contract.Severity>()
})

test('accepts types that the service sends', () => {
  expectTypeOf<contract.EventBatchReply>().toExtend<EventBatchReply>()
  expectTypeOf<contract.KillSwitchState>().toExtend<KillSwitchState>()
  expectTypeOf<contract.ControlMessage>().toExtend<ControlMessage>()
  expectTypeOf<contract.DeliveredPolicy>().toExtend<ReceivedSet>()
})

test('takes no other message of a control stream for a kill or resume', () => {
  const policy: contract.PolicyMessage = { action: 'policy', instance_id: 'bot', version: 9 }
  const approval: contract.ApprovalMessage = {
    action: 'approval',
    instance_id: 'bot',
    id: '01980000-0000-7000-8000-000000000000',
    state: 'approved',
  }
  for (const message of [policy, approval]) expect(stateFromStream(JSON.stringify(message), 'bot')).toBeUndefined()
})

test('uses the routes, headers and limits of the service', () => {
  const { sendHeartbeat, createEvents, getInstanceStatus, streamControl, acknowledgeControl, answerDrill } = endpoints
  const { checkKey, checkPath, checkOutput, getInstancePolicy, requestApproval } = endpoints
  expect([
    sendHeartbeat,
    createEvents,
    getInstanceStatus,
    streamControl,
    acknowledgeControl,
    answerDrill,
    checkKey,
    checkPath,
    checkOutput,
    getInstancePolicy,
    requestApproval,
  ]).toEqual(
    [
      'POST /api/heartbeat',
      'POST /api/events/batch',
      'GET /api/instances/:instanceId/status',
      'GET /api/instances/:instanceId/control',
      'POST /api/instances/:instanceId/ack',
      'POST /api/instances/:instanceId/drill',
      'POST /api/honeypots/check/key',
      'POST /api/honeypots/check/path',
      'POST /api/honeypots/check/output',
      'GET /api/instances/:instanceId/policy',
      'POST /api/instances/:instanceId/approvals',
    ].map((line) => expect.objectContaining({ method: line.split(' ')[0], path: line.split(' ')[1] })),
  )
  expect(Object.keys(getInstanceStatus.replyHeaders)).toEqual([
    'x-wardline-decoys',
    'x-wardline-policy',
    'x-wardline-control',
  ])
  expect(suspendedHeader).toBe(sentHeader)
  expect(severities).toEqual(['info', 'warning', 'critical', 'breach'])
  expect(limits).toMatchObject({
    instanceId: 64,
    name: 80,
    eventType: 100,
    description: 1000,
    sessionId: 200,
    metadataBytes: 16 * 1024,
    batchBytes: 1024 * 1024,
    batchEvents: 1000,
    checkedKey: 64 * 1024,
    checkedPath: 4096,
  })
})
