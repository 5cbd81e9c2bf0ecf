import { afterAll, beforeAll, expect, test } from 'vitest'
import { startCommand } from './command.ts'
import { newInstance } from './fleet.ts'
import { newDataDir, type Service, startService } from './service.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ env: { WARDLINE_DRILL_ANSWER_SECONDS: '5' } })
})
afterAll(() => service?.stop())

interface DrillMessage {
  action: string
  nonce: string
}

/** Runs the command line; resolves with its output and exit code. */
const wardline = (...args: string[]) =>
  startCommand(args, { HOME: newDataDir(), WARDLINE_URL: service.baseUrl, WARDLINE_KEY: service.key }).ended

/** Starts an agent that understands drills, and answers them or not. */
async function openAgent(id: string, isAnswering: boolean) {
  const stream = await service.openStream(`/api/instances/${id}/control?understands=drill`, { key: service.key })
  await stream.next(() => true)
  const listen = async (): Promise<void> => {
    const { json } = await stream.next<DrillMessage>(({ action }) => action === 'drill', 60_000)
    if (isAnswering) await service.call('POST', `/api/instances/${id}/drill`, { body: { nonce: json.nonce } })
    return listen()
  }
  // The agent ends with its stream.
  void listen().catch(() => {})
  return stream
}

test('wardline drill waits for the responses and reports them', async () => {
  const [answering, plain] = [await newInstance(service), await newInstance(service)]
  for (const id of [answering, plain])
    await service.call('PUT', `/api/instances/${id}/tags`, { body: { tags: ['drill:both'] } })
  const stream = await openAgent(answering, true)
  const other = await service.openStream(`/api/instances/${plain}/control`, { key: service.key })
  const one = await wardline('drill', answering)
  expect(one.stderr).toBe('')
  expect(one.stdout).toMatch(
    /^Drill [0-9a-f-]{36}: 1 agent selected\nAsked {5}1\nAnswered {2}1\np50 {7}\d+ ms\np99 {7}\d+ ms\n$/,
  )
  expect(one.code).toBe(0)

  const both = await wardline('drill', '--tag', 'drill:both', '--json')
  expect(both.code).toBe(0)
  expect(JSON.parse(both.stdout)).toMatchObject({
    state: 'complete',
    selected: 2,
    asked: 1,
    answered: 1,
    missing: [{ instance_id: plain, reason: 'does_not_understand' }],
  })
  expect(other.messages).toHaveLength(1)
  other.close()
  stream.close()
})

test('wardline drill exits with code 5 if an agent does not answer', async () => {
  const id = await newInstance(service)
  const stream = await openAgent(id, false)
  const { code, stdout, stderr } = await wardline('drill', id)
  expect(code).toBe(5)
  expect(stdout).toContain(`${id}  no answer in time`)
  expect(stderr).toContain('1 agent of 1 did not answer: a suspension might not reach them.')
  stream.close()
})

test('wardline drill lists what a supervisor can hold, and exits with code 5 if that is not everything', async () => {
  const id = await newInstance(service)
  const { body } = await service.call<{ key: string }>('POST', '/api/keys', {
    body: { scope: 'agent', instances: [id], supervises: true },
  })
  const stream = await service.openStream(`/api/instances/${id}/control?understands=drill`, { key: body.key })
  await stream.next(() => true)
  for (const [unreachable, code] of [
    [0, 0],
    [2, 5],
  ] as const) {
    const running = wardline('drill', id)
    const { json } = await stream.next<DrillMessage>(({ action }) => action === 'drill', 60_000)
    await service.call('POST', `/api/instances/${id}/drill`, {
      key: body.key,
      body: { nonce: json.nonce, supervisor: { processes: 12, unreachable } },
    })
    const done = await running
    expect(done.code).toBe(code)
    expect(done.stdout).toMatch(new RegExp(`\\n${id} +${12 - unreachable} +${unreachable}\\n`))
    expect(done.stderr).toContain(code === 0 ? '' : 'The supervisors of 1 agent could not hold every process.')
  }
  stream.close()
})

test('wardline drill reports an invalid selection', async () => {
  const id = await newInstance(service)
  expect(await wardline('drill', 'no-such-agent')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('No instance with id no-such-agent'),
  })
  expect(await wardline('drill', id, '--all')).toMatchObject({ code: 64 })
  expect(await wardline('drill', '--tag', 'no:such')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('No instance has the tag no:such'),
  })
})
