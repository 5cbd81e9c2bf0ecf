import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { effort } from '../../test-servers/effort.ts'
import { postEvent, unique } from '../fleet.ts'
import { isExternal, needsOwnProcess, type Service, startService, until } from '../service.ts'

if (isExternal) process.stdout.write(`The stages of suspensions under kills are left out: ${needsOwnProcess}\n`)

const agentsOfStage = 6
const lanes = 6

interface Suspension {
  version: number
  state: string
  requested_at: string
  delivered_at: string | null
  acknowledged_at: string | null
  silent_at: string | null
}

/** Registers agents whose client can acknowledge. */
async function register(service: Service, stage: string): Promise<string[]> {
  const ids = Array.from({ length: agentsOfStage }, () => unique(stage))
  for (const id of ids) {
    const body = { instance_id: id, name: id, control_version: 0 }
    expect((await service.call('POST', '/api/heartbeat', { body })).status).toBe(200)
  }
  return ids
}

const suspend = (service: Service, id: string) =>
  service.call('POST', `/api/kill/${id}`, { body: { reason: 'as a test' } })
const poll = (service: Service, id: string) => service.call('GET', `/api/instances/${id}/status`)
const acknowledge = (service: Service, id: string) =>
  service.call('POST', `/api/instances/${id}/ack`, { body: { version: 1 } })

async function newest(service: Service, id: string): Promise<Suspension | undefined> {
  const answer = await service.call<{ suspensions: Suspension[] }>('GET', `/api/instances/${id}/suspensions`)
  const { status, body, text } = answer
  expect(status, text).toBe(200)
  expect(body.suspensions.length, text).toBeLessThanOrEqual(1)
  return body.suspensions[0]
}
/** Sequentially, because reads of one key wait for each other, and too many are refused. */
async function allOf(service: Service, ids: readonly string[]): Promise<(Suspension | undefined)[]> {
  const found: (Suspension | undefined)[] = []
  for (const id of ids) found.push(await newest(service, id))
  return found
}
/** One after the other, because polls of all would cost more than what is tested. */
async function untilState(service: Service, ids: readonly string[], state: string) {
  for (const id of ids)
    await until(
      `${state}: ${id}`,
      () => newest(service, id),
      (one) => one?.state === state,
    )
  return await allOf(service, ids)
}

/** Kills the process while suspensions are requested, delivered and acknowledged; others are already proven. */
async function killBetweenStages(service: Service, answersBefore: number): Promise<void> {
  const asking = await register(service, 'asking')
  const polling = await register(service, 'polling')
  const acking = await register(service, 'acking')
  const proven = await register(service, 'proven')
  for (const id of [...polling, ...acking, ...proven]) expect((await suspend(service, id)).status).toBe(200)
  for (const id of proven) expect((await acknowledge(service, id)).status).toBe(200)
  const before = await untilState(service, proven, 'proven')

  const answered = new Set<string>()
  let killed: Promise<unknown> = Promise.resolve()
  const steps = asking.flatMap((_, index) => [
    [asking[index]!, suspend] as const,
    [polling[index]!, poll] as const,
    [acking[index]!, acknowledge] as const,
  ])
  const lane = async (first: number) => {
    for (const [id, act] of steps.filter((_, index) => index % lanes === first)) {
      const answer = await act(service, id).catch(() => undefined)
      if (answer?.status !== 200) continue
      answered.add(id)
      // Each round kills the process at another point of a commit.
      if (answered.size === answersBefore) killed = pause(answersBefore % 5).then(() => service.kill9())
    }
  }
  await Promise.all(Array.from({ length: lanes }, (_, first) => lane(first)))
  await killed
  await service.start()

  for (const id of asking) {
    const found = await newest(service, id)
    const { body } = await service.call<{ status: string }>('GET', `/api/instances/${id}`)
    const audit = await service.call<{ entries: unknown[] }>('GET', `/api/audit?action=instance.suspend&target=${id}`)
    // The suspension, its row of facts and its audit entry: all of them or none.
    const isSuspended = body.status === 'suspended'
    expect([found !== undefined, audit.body.entries.length], id).toEqual([isSuspended, isSuspended ? 1 : 0])
    if (answered.has(id)) expect(isSuspended, `${id} was answered`).toBe(true)
    if (found) expect(found, id).toMatchObject({ version: 1, acknowledged_at: null, silent_at: null })
  }
  for (const id of polling) {
    const found = (await newest(service, id))!
    expect(found, id).toMatchObject({ acknowledged_at: null, silent_at: null })
    expect(['pending', 'unconfirmed'], id).toContain(found.state)
    // The record of a delivery may be lost: then it is unknown, never assumed.
    if (found.delivered_at !== null) expect(found.delivered_at >= found.requested_at, id).toBe(true)
  }
  for (const id of acking) {
    const found = (await newest(service, id))!
    if (answered.has(id)) expect(found.acknowledged_at, `${id} was answered`).not.toBeNull()
    const shown = found.acknowledged_at === null ? ['pending', 'unconfirmed'] : ['confirmed', 'proven']
    expect(shown, id).toContain(found.state)
  }
  expect(await allOf(service, proven)).toEqual(before)

  // Interrupted suspensions continue from the stored facts.
  for (const id of asking) if ((await newest(service, id)) === undefined) await suspend(service, id)
  for (const id of [...asking, ...polling, ...acking]) expect((await acknowledge(service, id)).status).toBe(200)
  await untilState(service, [...asking, ...polling, ...acking, ...proven], 'proven')
}

describe.skipIf(isExternal)('a suspension', () => {
  test('is after each crash as its facts say, and loses nothing that was answered', async () => {
    const kills = effort(3, 60)
    const service = await startService({ env: { WARDLINE_SUSPENSION_SILENCE_SECONDS: '2' } })
    for (let count = 1; count <= kills; count++) await killBetweenStages(service, 1 + ((count * 5) % 16))
    await service.stop()
  })

  // Activity that was acknowledged just before the crash must not be lost with the memory of the process.
  test('that was proven is violated by an event of just before a crash', async () => {
    const service = await startService({ env: { WARDLINE_SUSPENSION_SILENCE_SECONDS: '2' } })
    const [id, other] = await register(service, 'active')
    for (const agent of [id!, other!]) {
      await suspend(service, agent)
      await acknowledge(service, agent)
    }
    await untilState(service, [id!, other!], 'proven')
    await postEvent(service, { instance_id: id!, source: id!, event_type: 'tool_call' })
    await service.kill9()
    await service.start()
    await untilState(service, [id!], 'violated')
    expect((await newest(service, other!))!.state).toBe('proven')
    await service.stop()
  })
})
