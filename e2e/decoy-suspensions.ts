import { setTimeout as pause } from 'node:timers/promises'
import { expect } from 'vitest'
import { newInstance } from './fleet.ts'
import type { Service } from './service.ts'
import type { EventRow } from './shapes.ts'

export const suspendingEnv = {
  WARDLINE_AUTO_SUSPEND: 'decoy',
  WARDLINE_AUTO_SUSPEND_PER_MINUTE: '10000',
  WARDLINE_AUTO_SUSPEND_FLEET_PERCENT: '100',
}

const agents = 24
const lanes = 6

/**
 * Agents touch a decoy at the same time, and the process is killed once so many were answered. After its restart each
 * hit must have its suspension, and each suspension its hit. Resolves with how many were suspended without an answer.
 */
export async function killDuringHits(service: Service, answersBefore: number): Promise<number> {
  const ids = await Promise.all(Array.from({ length: agents }, () => newInstance(service)))
  const planted = await service.call<{ key: string }>('POST', '/api/honeypots', {
    body: { instanceId: ids[0], type: 'api_key', keyType: 'aws' },
  })
  expect(planted.status, planted.text).toBeLessThan(300)
  const answered = new Set<string>()
  let killed: Promise<unknown> = Promise.resolve()
  const touch = async (id: string) => {
    const answer = await service
      .call('POST', '/api/honeypots/check/key', { body: { key: planted.body.key, meta: { instance_id: id } } })
      .catch(() => undefined)
    if (answer?.status !== 200) return
    answered.add(id)
    // Each round kills the process at another point of a transaction.
    if (answered.size === answersBefore) killed = pause(answersBefore % 9).then(() => service.kill9())
  }
  // Several lanes, so that some checks are answered while the transactions of others run.
  const lane = async (first: number) => {
    for (let index = first; index < agents; index += lanes) await touch(ids[index]!)
  }
  await Promise.all(Array.from({ length: lanes }, (_, index) => lane(index)))
  await killed
  await service.start()

  let unanswered = 0
  for (const id of ids) {
    const { body: instance } = await service.call<{ status: string; suspension_reason: string | null }>(
      'GET',
      `/api/instances/${id}`,
    )
    const { body } = await service.call<{ events: EventRow[] }>(
      'GET',
      `/api/events?event_type=honeypot_triggered&instance_id=${id}`,
    )
    const entries = await service.call<{ entries: { reason: string | null }[] }>(
      'GET',
      `/api/audit?action=instance.suspend&target=${id}`,
    )
    const [hit] = body.events
    expect([instance.status === 'suspended', entries.body.entries.length > 0], id).toEqual([
      hit !== undefined,
      hit !== undefined,
    ])
    if (hit) expect(instance.suspension_reason, id).toContain(`event ${hit.id}`)
    if (answered.has(id)) expect(hit, `${id} was answered`).toBeDefined()
    else if (hit) unanswered += 1
  }
  return unanswered
}
