import { isBadKey, isPassing, isSuccess } from '../service.ts'
import type { ControlState } from '../wire.ts'
import type { AgentSettings } from './agent-settings.ts'
import { judge, poll } from './control-check.ts'
import { PlainService } from './plain-service.ts'

const askMs = 2_000

interface Access {
  /** Last known state; undefined before the first call. */
  state: ControlState | undefined
  /** Why a hook with these settings cannot work, as a sentence for people. */
  fault: string | undefined
  /** A retry will not help: the address or the key is wrong. */
  isRefused: boolean
}

/** Sends the same requests as a hook, except the heartbeat, which would register the instance. */
export async function checkAccess(settings: AgentSettings, known: ControlState | undefined): Promise<Access> {
  const service = new PlainService(settings, performance.now() + askMs)
  const polled = await poll({ service, settings, timeoutMs: askMs })
  const isNew = polled.status === 404 && polled.header('x-error-code') === 'not_found'
  const { state, fault, isAnswered } = judge({ service, known }, polled)
  // Like a hook: to the service, an agent that checks decoys while it is suspended is at work.
  if (isAnswered && state?.suspended) return { state, fault, isRefused: false }
  const checked = await service.call('honeypots/check/key', { body: '{"key":"wardline"}', timeoutMs: askMs })
  const isChecked = isSuccess(checked) && typeof checked.body.matched === 'boolean'
  const failing = fault !== undefined && !isNew ? polled : isChecked ? undefined : checked
  return {
    state,
    fault: failing === polled ? fault : failing && service.explain(failing).message,
    isRefused:
      failing !== undefined &&
      (isBadKey(failing) || (failing.status > 0 && failing.status < 400) || !isPassing(failing)),
  }
}
