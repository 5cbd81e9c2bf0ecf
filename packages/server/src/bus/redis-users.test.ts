import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { RedisClient } from '@redis/client'
import type { ControlMessage } from '@wardline/contract'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it, vi } from 'vitest'
import { startRedis, type TestRedis } from '../../../../test-servers/redis.ts'
import { systemClock } from '../clock.ts'
import type { EventFields } from '../db/schema/events.ts'
import { eventRowJson, parseEventRow } from '../features/events/event-row.ts'
import { createLog } from '../log.ts'
import { createMetrics } from '../metrics.ts'
import { storedEvent } from '../testing/events.ts'
import { signControl } from './control-signature.ts'
import { RedisBus } from './redis.ts'
import { createMac } from './signed-event.ts'

const deadline = { timeout: 60_000, interval: 10 }
const hash = (password: string) => createHash('sha256').update(password).digest('hex')

/** The ACL file with passwords filled in as its comment describes. */
function filledIn(): string {
  const text = readFileSync(new URL('../../../../deploy/redis-users.acl', import.meta.url), 'utf8')
  return text
    .replaceAll(/^#.*\n/gm, '')
    .replace('SERVICE_PASSWORD_SHA256', hash('service password'))
    .replace('AGENT_PASSWORD_SHA256', hash('agent password'))
}

const missing = inject('redisMissing')
let folder: string
let redis: TestRedis
beforeAll(async () => {
  if (missing) return
  folder = mkdtempSync(join(tmpdir(), 'wardline-acl-'))
  writeFileSync(join(folder, 'users.acl'), filledIn())
  redis = await startRedis({ aclFile: join(folder, 'users.acl') })
})
afterAll(async () => {
  await redis?.stop()
  if (folder) rmSync(folder, { recursive: true })
})
beforeEach(({ skip }) => {
  if (missing) skip(missing)
})

const urlOf = (user: string, password: string) =>
  `redis://${user}:${encodeURIComponent(password)}@127.0.0.1:${redis.port}`

async function connect(user: string, password: string) {
  const client = new RedisClient({ url: urlOf(user, password), socket: { reconnectStrategy: false } })
  client.on('error', () => {})
  await client.connect()
  return {
    client,
    /** First word of the error; undefined if the command succeeded. */
    refusal: (...command: string[]) =>
      client.sendCommand(command).then(
        () => undefined,
        (fault: Error) => fault.message.split(' ')[0],
      ),
    [Symbol.asyncDispose]: async () => client.destroy(),
  }
}

const connectAgent = () => connect('wardline-agent', 'agent password')

/** Commands that are not needed for sending and receiving messages. */
const elsewhere = [
  ['GET', 'key'],
  ['SET', 'key', 'value'],
  ['DEL', 'key'],
  ['KEYS', '*'],
  ['SCAN', '0'],
  ['FLUSHALL'],
  ['CONFIG', 'GET', '*'],
  ['CONFIG', 'SET', 'dir', '/tmp'],
  ['ACL', 'LIST'],
  ['ACL', 'SETUSER', 'wardline-agent', '+@all'],
  ['ACL', 'WHOAMI'],
  ['CLIENT', 'LIST'],
  ['CLIENT', 'KILL', 'TYPE', 'pubsub'],
  ['INFO'],
  ['MONITOR'],
  ['SHUTDOWN', 'NOSAVE'],
  ['SAVE'],
  ['REPLICAOF', '192.0.2.1', '6379'],
  ['MODULE', 'LIST'],
  ['EVAL', 'return 1', '0'],
  ['PUBSUB', 'CHANNELS'],
  ['PSUBSCRIBE', '*'],
  ['PSUBSCRIBE', 'wardline:*'],
  ['SUBSCRIBE', 'other'],
  ['SUBSCRIBE', '__keyspace@0__:key'],
  ['SSUBSCRIBE', 'wardline:control'],
  ['SPUBLISH', 'wardline:control', '{}'],
  ['PUBLISH', 'other', '{}'],
  ['PUBLISH', 'wardline:control:more', '{}'],
]

describe('an agent on the control channel', () => {
  it('receives messages of the service', async () => {
    await using agent = await connectAgent()
    await using service = await connect('wardline', 'service password')
    const heard: string[] = []
    await agent.client.subscribe('wardline:control', (message) => heard.push(message))
    expect(await service.refusal('PUBLISH', 'wardline:control', 'stop')).toBeUndefined()
    await vi.waitFor(() => expect(heard).toEqual(['stop']), deadline)
    await agent.client.unsubscribe('wardline:control')
    expect(await agent.refusal('PING')).toBeUndefined()
  })

  // An agent that may publish could try to resume itself or flood operators with events.
  it('cannot publish', async () => {
    await using agent = await connectAgent()
    for (const channel of ['wardline:control', 'wardline:events']) {
      expect(await agent.refusal('PUBLISH', channel, '{}'), channel).toBe('NOPERM')
    }
  })

  // Events contain the actions of other agents, with texts and addresses.
  it('cannot receive events', async () => {
    await using agent = await connectAgent()
    await expect(agent.client.subscribe('wardline:events', () => {})).rejects.toThrow('NOPERM')
    await expect(agent.client.pSubscribe('wardline:*', () => {})).rejects.toThrow('NOPERM')
  })

  it.each(elsewhere.map((command) => [command]))('may not %j', async (command) => {
    await using agent = await connectAgent()
    expect(await agent.refusal(...command)).toBe('NOPERM')
  })
})

describe('the service', () => {
  it('has all permissions that the bus needs', async () => {
    const secrets = { controlKey: Buffer.alloc(32, 'c'), eventKey: Buffer.alloc(32, 'e'), decoyKey: Buffer.alloc(32) }
    const logged: string[] = []
    const open = async () => {
      const bus = new RedisBus({
        url: () => urlOf('wardline', 'service password'),
        eventsChannel: 'wardline:events',
        controlChannel: 'wardline:control',
        clock: systemClock,
        log: createLog('debug', { write: (line) => void logged.push(line) }),
        metrics: createMetrics(),
        secrets,
      })
      await bus.open()
      return bus
    }
    const [one, other] = [await open(), await open()]
    const events: EventFields[] = []
    const control: ControlMessage[] = []
    other.onEvents((rows) => events.push(...rows), parseEventRow)
    other.onControl((message) => control.push(message))
    const message = { instance_id: 'bot', action: 'resume' as const, version: 1, issued_at: '2026-01-15T00:00:00.000Z' }
    one.publishControl({ ...message, signature: signControl(message, createMac(secrets.controlKey)) })
    one.publishEvents([storedEvent({ seq: 1, description: 'x' })], eventRowJson)
    await vi.waitFor(() => expect([events.length, control.length]).toEqual([1, 1]), deadline)
    await one.close()
    await other.close()
    expect(logged.map((line) => JSON.parse(line).msg)).toEqual(['backplane connected', 'backplane connected'])
  })

  it.each(elsewhere.map((command) => [command]))('may not %j', async (command) => {
    await using service = await connect('wardline', 'service password')
    expect(await service.refusal(...command)).toBe('NOPERM')
  })
})

describe('all other users', () => {
  it('are refused without a name, with a wrong password or with another user’s name', async () => {
    const plain = new RedisClient({ url: redis.url, socket: { reconnectStrategy: false } })
    plain.on('error', () => {})
    await expect(plain.connect()).rejects.toThrow('NOAUTH')
    for (const [user, password] of [
      ['default', ''],
      ['default', 'service password'],
      ['wardline', 'agent password'],
      ['wardline-agent', 'service password'],
      ['wardline', hash('service password')],
    ] as const) {
      await expect(connect(user, password), user).rejects.toThrow(/WRONGPASS|NOAUTH/)
    }
  })

  it('find no running server while passwords are missing', async () => {
    const file = join(folder, 'unfilled.acl')
    writeFileSync(file, filledIn().replaceAll(/#[0-9a-f]{64}/g, '#SERVICE_PASSWORD_SHA256'))
    await expect(startRedis({ aclFile: file })).rejects.toThrow('Redis did not start')
  })
})
