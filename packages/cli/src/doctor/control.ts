import { type ControlMessage, endpoints } from '@wardline/contract'
import { openEventStream, type SentEvent } from '../events/event-stream.ts'
import { Failure } from '../exit.ts'
import type { Service } from '../service/service.ts'
import { type Check, fail, ok } from './check.ts'

/** All probes share one id, so that the fleet does not fill with dead probes. */
const probeId = 'wardline-doctor'
const arriveWithinMs = 10_000

async function nextControl(messages: AsyncGenerator<SentEvent>): Promise<ControlMessage> {
  for (;;) {
    const { value, done } = await messages.next()
    if (done) throw new Error('The control stream ended.')
    if (value.data !== undefined) return JSON.parse(value.data) as ControlMessage
  }
}

async function nextAction(
  messages: AsyncGenerator<SentEvent>,
  action: ControlMessage['action'],
): Promise<ControlMessage> {
  for (;;) {
    const message = await nextControl(messages)
    if (message.action === action) return message
  }
}

/** Kills, confirms and resumes the probe, with this process as its agent. Resolves with milliseconds since the kill. */
async function killAndConfirm(
  { call, ...service }: Service,
  signal: AbortSignal,
): Promise<[reached: number, confirmed: number]> {
  const params = { instanceId: probeId }
  const path = endpoints.streamControl.path.replace(':instanceId', probeId)
  const { messages } = await openEventStream({ ...service, path, signal })
  const { action } = await nextControl(messages)
  // An interrupted probe may have left the instance suspended.
  if (action === 'suspend') {
    await call('resumeInstance', { params, signal })
    await nextAction(messages, 'resume')
  }
  const startedAt = performance.now()
  await call('killInstance', { params, body: { reason: 'wardline doctor --probe' }, signal })
  const { version } = await nextAction(messages, 'suspend')
  const reached = performance.now() - startedAt
  await call('acknowledgeControl', { params, body: { version }, signal })
  const { control } = await call('getInstance', { params, signal })
  const confirmed = performance.now() - startedAt
  if (!control.confirmed) throw new Error('The service does not show the confirmation.')
  await call('resumeInstance', { params, signal })
  await nextAction(messages, 'resume')
  return [reached, confirmed]
}

/** Kills, confirms and resumes a temporary instance. */
export async function checkControlPath(service: Service): Promise<Check> {
  const name = 'control path'
  const end = new AbortController()
  const timer = setTimeout(
    () => end.abort(new Error(`It took longer than ${arriveWithinMs / 1_000} s.`)),
    arriveWithinMs,
  )
  try {
    const body = { instance_id: probeId, name: 'Probe of wardline doctor' }
    await service.call('sendHeartbeat', { body, signal: end.signal })
    const [reached, confirmed] = (await killAndConfirm(service, end.signal)).map(Math.round)
    return ok(
      name,
      `A kill reached ${probeId} after ${reached} ms and was confirmed after ${confirmed} ms; it is resumed again.`,
    )
  } catch (fault) {
    if (fault instanceof Failure && fault.code === 'forbidden') {
      return fail(
        name,
        'The probe needs a key that may act as an agent and as an operator.',
        'Run the probe with an admin key.',
      )
    }
    const { message } = (end.signal.aborted ? end.signal.reason : fault) as Error
    return fail(
      name,
      `The kill did not arrive: ${message}`,
      'See the result of the control stream above, and the log of the service.',
    )
  } finally {
    clearTimeout(timer)
    end.abort()
  }
}
