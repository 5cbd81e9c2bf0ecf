import { controlHeader, decoysHeader, type KillSwitchState } from '@wardline/contract'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Deps } from '../../deps.ts'
import { requestActor } from '../../http/actor.ts'
import { assertMayActFor, type Principal } from '../../http/auth.ts'
import { matchesTag } from '../../http/etag.ts'
import type { Router } from '../../http/route.ts'
import { workLane } from '../../work-turns.ts'
import type { ActivityCounts } from '../instances/history.ts'
import { type Acks, unknownInstance } from './acks.ts'
import type { ControlStates, KnownState } from './control-states.ts'
import type { ControlStream } from './control-stream.ts'
import { type KillSwitchDeps, resumeInstance, suspendInstance } from './kill-switch.ts'

function answerPoll(
  instanceId: string,
  known: KnownState | undefined,
  request: FastifyRequest,
  reply: FastifyReply,
): KillSwitchState {
  if (!known) throw unknownInstance(instanceId)
  reply.header('etag', known.etag)
  reply.header(controlHeader, known.control)
  reply.header('cache-control', 'no-cache')
  if (matchesTag(request.headers['if-none-match'], known.etag)) reply.code(304).send()
  return known.state
}

interface KillSwitchRoutes extends Pick<KillSwitchDeps, 'outbox'> {
  controlStates: ControlStates
  controlStream: ControlStream
  acks: Pick<Acks, 'acknowledge'>
  /** Whether any decoy could trip for this caller. */
  reaches(principal: Principal): boolean
  activityCounts: Pick<ActivityCounts, 'noteRequest'>
}

export function mountKillSwitch(
  router: Router,
  deps: Deps,
  { outbox, controlStates: states, controlStream: stream, acks, reaches, activityCounts: activity }: KillSwitchRoutes,
): void {
  const changing = { ...deps, outbox }
  router.handle('killInstance', async ({ params, body, request }) => {
    const actor = requestActor(request)
    await workLane.aheadOfWork(() => suspendInstance(changing, params.instanceId, body.reason, actor))
    return { ok: true, instance_id: params.instanceId, status: 'suspended' }
  })

  router.handle('resumeInstance', async ({ params, request }) => {
    const actor = requestActor(request)
    await workLane.aheadOfWork(() => resumeInstance(changing, params.instanceId, actor))
    return { ok: true, instance_id: params.instanceId, status: 'active' }
  })

  router.handle('getInstanceStatus', ({ params, principal, request }, reply) => {
    if (principal.scope === 'agent') assertMayActFor(principal, params.instanceId)
    reply.header(decoysHeader, reaches(principal) ? 'some' : 'none')
    const answer = (known: KnownState | undefined) => {
      if (known && principal.scope === 'agent') activity.noteRequest(params.instanceId, deps.clock.now())
      return answerPoll(params.instanceId, known, request, reply)
    }
    const known = states.peek(params.instanceId)
    return known ? answer(known) : states.read(params.instanceId).then(answer)
  })

  router.stream('streamControl', async ({ params, principal }, reply) => {
    if (principal.scope === 'agent') assertMayActFor(principal, params.instanceId)
    const known = await states.read(params.instanceId)
    if (!known) throw unknownInstance(params.instanceId)
    stream.subscribe(reply, params.instanceId, known, principal)
  })

  router.handle('getControlKeys', () => deps.controlSigner.keys)

  router.handle('acknowledgeControl', async ({ params, body, principal }) => {
    assertMayActFor(principal, params.instanceId)
    await acks.acknowledge({ instanceId: params.instanceId, version: body.version, keyId: principal.keyId })
    return { ok: true }
  })
}
