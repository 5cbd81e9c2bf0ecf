import { decoysHeader, type KillSwitchState } from '@wardline/contract'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { requestActor } from '../../http/actor.ts'
import { assertMayActFor, type Principal } from '../../http/auth.ts'
import type { Router } from '../../http/route.ts'
import type { ControlStates, KnownState } from './control-states.ts'
import type { ControlStream } from './control-stream.ts'
import {
  acknowledgeControl,
  type KillSwitchDeps,
  resumeInstance,
  suspendInstance,
  unknownInstance,
} from './kill-switch.ts'

/** Weak comparison (RFC 9110, section 13.1.2): the current tag is in the list, or the list is *. */
function matches(given: string | undefined, etag: string): boolean {
  if (given === undefined) return false
  return given.split(',').some((tag) => tag.trim() === etag || tag.trim() === '*' || `W/${tag.trim()}` === etag)
}

function answerPoll(known: KnownState | undefined, request: FastifyRequest, reply: FastifyReply): KillSwitchState {
  if (!known) throw unknownInstance()
  reply.header('etag', known.etag)
  reply.header('cache-control', 'no-cache')
  if (matches(request.headers['if-none-match'], known.etag)) reply.code(304).send()
  return known.state
}

/** `reaches`: whether any decoy could trip for this caller. */
export function mountKillSwitch(
  router: Router,
  deps: KillSwitchDeps,
  states: ControlStates,
  stream: ControlStream,
  reaches: (principal: Principal) => boolean,
): void {
  router.handle('killInstance', async ({ params, body, request }) => {
    await suspendInstance(deps, params.instanceId, body.reason, requestActor(request))
    return { ok: true, instance_id: params.instanceId, status: 'suspended' }
  })

  router.handle('resumeInstance', async ({ params, request }) => {
    await resumeInstance(deps, params.instanceId, requestActor(request))
    return { ok: true, instance_id: params.instanceId, status: 'active' }
  })

  router.handle('getInstanceStatus', ({ params, principal, request }, reply) => {
    if (principal.scope === 'agent') assertMayActFor(principal, params.instanceId)
    reply.header(decoysHeader, reaches(principal) ? 'some' : 'none')
    const known = states.peek(params.instanceId)
    if (known) return answerPoll(known, request, reply)
    return states.read(params.instanceId).then((read) => answerPoll(read, request, reply))
  })

  router.stream('streamControl', async ({ params, principal }, reply) => {
    if (principal.scope === 'agent') assertMayActFor(principal, params.instanceId)
    const known = await states.read(params.instanceId)
    if (!known) throw unknownInstance()
    stream.subscribe(reply, params.instanceId, known, principal.keyId)
  })

  router.handle('acknowledgeControl', async ({ params, body, principal }) => {
    assertMayActFor(principal, params.instanceId)
    await acknowledgeControl(deps, params.instanceId, body.version)
    return { ok: true }
  })
}
