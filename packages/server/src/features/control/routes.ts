import { controlHeader, decoysHeader, type KillSwitchState, policyHeader, streamedKinds } from '@wardline/contract'
import type { Deps } from '../../deps.ts'
import { unknownInstance } from '../../errors.ts'
import { requestActor } from '../../http/actor.ts'
import { assertMayActFor, mayActFor, mayBeAgent, type Principal } from '../../http/auth.ts'
import type { Found, Read } from '../../http/direct.ts'
import { matchesTag } from '../../http/etag.ts'
import { assertFresh } from '../../http/fresh.ts'
import type { Router } from '../../http/route.ts'
import { answerSupervisor } from '../../http/supervisor.ts'
import { workLane } from '../../work-turns.ts'
import type { Actor } from '../audit/audit.ts'
import { createKeyList } from '../audit/signing-keys.ts'
import type { ActivityCounts } from '../instances/history.ts'
import type { SuspensionFacts } from '../suspensions/suspension-facts.ts'
import type { Acks } from './acks.ts'
import type { ControlStates, KnownState } from './control-states.ts'
import type { ControlStream } from './control-stream.ts'
import { type KillSwitchParts, type ResumeCondition, resumeInstance, suspendInstance } from './kill-switch.ts'

interface KillSwitchRoutes extends Pick<KillSwitchParts, 'outbox' | 'enforcement' | 'pendingResumes'> {
  controlStates: ControlStates
  controlStream: ControlStream
  acks: Pick<Acks, 'acknowledge'>
  suspensionFacts: SuspensionFacts
  policySets: { readonly version: number }
  /** Whether any decoy can be triggered by this caller. */
  reaches(principal: Principal): boolean
  activityCounts: Pick<ActivityCounts, 'noteRequest'>
  /** Returns the condition under which the caller may resume an instance. */
  resumeCondition(instanceId: string, asking: { principal: Principal; actor: Actor }): ResumeCondition
}

export function mountKillSwitch(router: Router, deps: Deps, parts: KillSwitchRoutes): void {
  const { controlStates, controlStream, acks, reaches, suspensionFacts, activityCounts, resumeCondition, policySets } =
    parts
  router.handle('killInstance', async ({ params, body, request }) => {
    const { instanceId } = params
    const suspension = { instanceId, reason: body.reason, actor: requestActor(request) }
    await workLane.aheadOfWork(() => suspendInstance(deps, parts, suspension))
    return { ok: true, instance_id: instanceId, status: 'suspended' }
  })

  router.handle('resumeInstance', async ({ params, principal, request }) => {
    assertFresh(principal, deps.clock.now())
    const { instanceId } = params
    const actor = requestActor(request)
    const condition = resumeCondition(instanceId, { principal, actor })
    await workLane.aheadOfWork(() => resumeInstance(deps, parts, { instanceId, actor, condition }))
    return { ok: true, instance_id: instanceId, status: 'active' }
  })

  const callerHeaders = (principal: Principal) => ({
    [decoysHeader]: reaches(principal) ? 'some' : 'none',
    [policyHeader]: String(policySets.version),
  })

  /** What a poll gets, which is noted as the agent's. */
  function polled({ instanceId, principal, headers }: Read, known: KnownState): Found<KillSwitchState> {
    if (principal.scope === 'agent') activityCounts.noteRequest(instanceId, deps.clock.now())
    if (known.state.suspended && mayBeAgent(principal)) {
      suspensionFacts.noteDelivered(instanceId, known.version, known.issuedAt, 'poll')
    }
    return {
      headers: { ...callerHeaders(principal), etag: known.etag, [controlHeader]: known.control },
      body: matchesTag(headers['if-none-match'], known.etag) ? undefined : known.state,
    }
  }

  router.read('getInstanceStatus', (read) => {
    const { principal, instanceId } = read
    if (principal.scope === 'agent' && !mayActFor(principal, instanceId)) return undefined
    const known = controlStates.peek(instanceId)
    return known && polled(read, known)
  })

  router.handle('getInstanceStatus', async ({ params: { instanceId }, principal, request }, reply) => {
    if (principal.scope === 'agent') assertMayActFor(principal, instanceId)
    reply.headers(callerHeaders(principal))
    const known = controlStates.peek(instanceId) ?? (await controlStates.read(instanceId))
    if (!known) throw unknownInstance(instanceId)
    const { headers, body } = polled({ instanceId, principal, headers: request.headers }, known)
    reply.headers(headers)
    if (body === undefined) reply.code(304).send()
    return known.state
  })

  router.stream('streamControl', async ({ params, query, principal }, reply) => {
    if (principal.scope === 'agent') assertMayActFor(principal, params.instanceId)
    const known = await controlStates.read(params.instanceId)
    if (!known) throw unknownInstance(params.instanceId)
    const named = query.understands?.split(',') ?? []
    const isAgent = mayBeAgent(principal)
    const understands = isAgent ? streamedKinds.filter((kind) => named.includes(kind)) : []
    controlStream.subscribe(reply, { instanceId: params.instanceId, known, holder: principal, isAgent, understands })
  })

  const evidenceKeys = createKeyList(deps)
  router.handle('getControlKeys', async () => ({
    ...deps.controlSigner.keys,
    evidence_keys: await evidenceKeys(),
  }))

  router.handle('acknowledgeControl', async ({ params, body, principal }, reply) => {
    assertMayActFor(principal, params.instanceId)
    answerSupervisor(reply, body.supervisor, principal)
    const ack = { instanceId: params.instanceId, version: body.version, keyId: principal.keyId }
    // An agent may hold an ordinary key, and could report what did not happen.
    const isEvidence = body.supervisor !== undefined && principal.supervises
    await acks.acknowledge(isEvidence ? { ...ack, supervisor: body.supervisor! } : ack)
    return { ok: true }
  })
}
