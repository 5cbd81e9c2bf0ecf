import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { effort } from '../../test-servers/effort.ts'
import { allEvents, anEvent, createKey, createKeyDecoy, newInstance, unique } from '../fleet.ts'
import {
  freePort,
  isExternal,
  needsOwnProcess,
  newApiKey,
  newDataDir,
  patienceMs,
  type Service,
  startService,
  startToExit,
} from '../service.ts'
import type { Created, StreamBody } from '../shapes.ts'

if (isExternal) process.stdout.write(`The fault tests are left out: ${needsOwnProcess}\n`)

/** Acknowledged ids by description, and the idempotency keys of unanswered requests. */
interface Ledger {
  acknowledged: Map<string, string>
  unanswered: Map<string, string>
}

/** Writes until the connection fails; calls `onEnough` once when the count of this round is reached. */
async function writeUntilCut(service: Service, ledger: Ledger, round: { left: number }, onEnough: () => void) {
  for (;;) {
    const description = unique('fault')
    const idempotencyKey = `retry-${description}`
    ledger.unanswered.set(description, idempotencyKey)
    const headers = { 'idempotency-key': idempotencyKey }
    const body = anEvent({ description, source: 'fault-writer' })
    const answer = await service.call<Created>('POST', '/api/events', { body, headers }).catch(() => undefined)
    if (answer === undefined) return
    // The queue of a slow disk is full, or the service is stopping.
    if (answer.status === 503) continue
    expect(answer.status, answer.text).toBe(201)
    ledger.acknowledged.set(description, answer.body.id)
    ledger.unanswered.delete(description)
    if (--round.left === 0) onEnough()
  }
}

describe.skipIf(isExternal)('a kill without warning', () => {
  test('loses no acknowledged event and doubles none that is sent again, again and again', async () => {
    const kills = effort(3, 100)
    const writers = effort(16, 200)
    const service = await startService()
    const ledger: Ledger = { acknowledged: new Map(), unanswered: new Map() }
    const restartsMs: number[] = []
    for (let count = 1; count <= kills; count++) {
      const round = { left: 20 + effort(100, 13) * count }
      let killed: Promise<unknown> = Promise.resolve()
      const onEnough = () => {
        killed = service.kill9()
      }
      await Promise.all(Array.from({ length: writers }, () => writeUntilCut(service, ledger, round, onEnough)))
      await killed
      const restartedAt = performance.now()
      await service.start()
      restartsMs.push(performance.now() - restartedAt)
      for (const [description, idempotencyKey] of ledger.unanswered) {
        const headers = { 'idempotency-key': idempotencyKey }
        const body = anEvent({ description, source: 'fault-writer' })
        const answer = await service.call<Created>('POST', '/api/events', { body, headers })
        expect([200, 201], answer.text).toContain(answer.status)
        ledger.acknowledged.set(description, answer.body.id)
      }
      ledger.unanswered.clear()
    }

    const rows = (await allEvents(service)).filter((row) => row.source === 'fault-writer')
    const ids = new Map(rows.map((row) => [row.description, row.id]))
    expect(ledger.acknowledged.size).toBeGreaterThan(500)
    expect(rows).toHaveLength(ledger.acknowledged.size)
    expect(ids).toEqual(ledger.acknowledged)
    const numbers = rows.map((row) => row.seq)
    expect(new Set(numbers).size).toBe(rows.length)
    await service.terminate()
    const database = new DatabaseSync(join(service.dataDir, 'wardline.db'), { readOnly: true })
    expect(database.prepare('pragma integrity_check').get()).toEqual({ integrity_check: 'ok' })
    database.close()
    const slowest = Math.max(...restartsMs).toFixed(0)
    process.stdout.write(`${kills} kills: ${rows.length} events kept, 0 lost, slowest restart ${slowest} ms\n`)
    await service.stop()
  })

  test('keeps suspensions, decoys, keys and counts', async () => {
    const service = await startService()
    const id = await newInstance(service)
    const key = await createKey(service, { scope: 'agent', instances: [id] })
    const decoy = await createKeyDecoy(service, id)
    await service.call('POST', `/api/kill/${id}`, { body: { reason: 'before the fall' } })
    await service.call('POST', '/api/events', { body: anEvent({ severity: 'critical' }) })
    const before = await service.call<{ stats: unknown; toolCalls: unknown }>('GET', '/api/status')
    await service.kill9()
    await service.start()
    const state = await service.call('GET', `/api/instances/${id}/status`, { key })
    expect(state.body).toEqual({ suspended: true, reason: 'before the fall' })
    const after = await service.call<{ stats: unknown; toolCalls: unknown }>('GET', '/api/status')
    expect(after.body.stats).toEqual(before.body.stats)
    const check = await service.call('POST', '/api/honeypots/check/key', { key, body: { key: decoy.key } })
    expect(check.body).toEqual({ matched: true })
    await service.stop()
  })
})

describe.skipIf(isExternal)('SIGTERM', () => {
  test('ends open streams and the process with code 0', async () => {
    const service = await startService()
    const id = await newInstance(service)
    const paths = [...Array.from({ length: 5 }, () => '/api/stream'), `/api/instances/${id}/control`]
    const streams = await Promise.all(paths.map((path) => service.openStream(path, { key: service.key })))
    await streams[0]!.next<StreamBody>((body) => body.type === 'heartbeat')
    const exit = await service.terminate(effort(patienceMs, 6_000))
    expect(exit).toEqual({ code: 0, signal: null })
    await Promise.all(streams.map((stream) => stream.ended))
    await service.stop()
  })

  test('under load keeps everything that it acknowledged', async () => {
    const service = await startService()
    const ledger: Ledger = { acknowledged: new Map(), unanswered: new Map() }
    let ended: ReturnType<Service['terminate']> | undefined
    const onEnough = () => {
      ended = service.terminate()
    }
    const round = { left: 640 }
    await Promise.all(Array.from({ length: 16 }, () => writeUntilCut(service, ledger, round, onEnough)))
    expect(await ended).toEqual({ code: 0, signal: null })
    await service.start()
    const stored = new Set((await allEvents(service)).map((row) => row.id))
    expect([...ledger.acknowledged.values()].filter((id) => !stored.has(id))).toEqual([])
    await service.stop()
  })
})

describe.skipIf(isExternal)('a start that cannot go well', () => {
  const expectRefusedStart = async (env: Record<string, string>, ...mentions: (string | RegExp)[]) => {
    const { code, output } = await startToExit(env)
    expect(code, output).toBeGreaterThan(0)
    for (const mention of mentions) expect(output).toMatch(mention)
    expect(output, 'a sentence for the operator, not a stack').not.toMatch(/^\s+at .+:\d+:\d+/m)
    return output
  }

  test('names every fault of the configuration at once', async () => {
    const env = {
      PORT: 'abc',
      WARDLINE_RETENTION_DAYS: '-1',
      WARDLINE_STREAM_AUTH: 'perhaps',
      TRUST_ERC8004_STATUS: 'bogus',
      TRUST_PUBLIC_ENABLED: 'maybe',
      DATABASE_URL: 'mysql://nowhere',
    }
    await expectRefusedStart(env, ...Object.keys(env))
  })

  test('refuses a key shorter than 32 characters and does not print it', async () => {
    const short = newApiKey().slice(0, 31)
    const output = await expectRefusedStart({ WARDLINE_API_KEY: short }, 'WARDLINE_API_KEY', '32')
    expect(output).not.toContain(short)
  })

  test('refuses a name that it does not know and says which one was meant', async () => {
    await expectRefusedStart(
      { WARDLINE_RETENTION_DAY: '3' },
      'WARDLINE_RETENTION_DAY',
      /did you mean WARDLINE_RETENTION_DAYS\b/i,
    )
    await expectRefusedStart({ WARDLINE_APIKEY: newApiKey() }, 'WARDLINE_APIKEY', /did you mean WARDLINE_API_KEY\b/i)
  })

  test('refuses a secret file that is not there', async () => {
    await expectRefusedStart(
      { WARDLINE_API_KEY: '', WARDLINE_API_KEY_FILE: '/nonexistent/key' },
      'WARDLINE_API_KEY_FILE',
    )
  })

  test('refuses a data folder that is a file', async () => {
    const file = join(newDataDir(), 'not-a-folder')
    writeFileSync(file, 'taken')
    await expectRefusedStart({ WARDLINE_DATA_DIR: file }, file)
  })

  test('refuses a port that is taken and names it', async () => {
    const port = await freePort()
    const blocker = createServer()
    await new Promise<void>((resolve) => blocker.listen(port, '127.0.0.1', resolve))
    await expectRefusedStart({ PORT: String(port) }, String(port))
    await new Promise((resolve) => blocker.close(resolve))
  })
})

describe.skipIf(isExternal)('a first start without a key', () => {
  let service: Service
  const storedKey = () => readFileSync(join(service.dataDir, 'admin-key'), 'utf8').trim()
  beforeAll(async () => {
    service = await startService({ withoutKey: true })
  })
  afterAll(() => service?.stop())

  test('creates one admin key that works, also after a restart', async () => {
    const key = storedKey()
    expect((await service.call('GET', '/api/status', { key })).status).toBe(200)
    await service.restart()
    expect(storedKey()).toBe(key)
    expect((await service.call('GET', '/api/status', { key })).status).toBe(200)
  })

  // Without a terminal the output is a log, which is stored and sent to other machines.
  test('prints where the key is, and not the key', () => {
    expect(service.logs().split(join(service.dataDir, 'admin-key'))).toHaveLength(2)
    expect(service.logs()).not.toContain(storedKey())
    expect(service.logs()).not.toContain('wl_admin_')
  })

  test('keeps the key in a file that only its owner can read', () => {
    const key = storedKey()
    const files = readdirSync(service.dataDir, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
    const holding = files.filter((file) => readFileSync(file).includes(key))
    expect(holding).toHaveLength(1)
    expect(statSync(holding[0]!).mode & 0o777).toBe(0o600)
  })
})

describe.skipIf(isExternal)('a key from a file', () => {
  test('opens the same doors as one from the environment', async () => {
    const key = newApiKey()
    const file = join(newDataDir(), 'key')
    writeFileSync(file, `${key}\n`, { mode: 0o600 })
    const service = await startService({ withoutKey: true, env: { WARDLINE_API_KEY_FILE: file } })
    expect((await service.call('GET', '/api/status', { key })).status).toBe(200)
    expect((await service.call('GET', '/api/status', { key: service.key })).status).toBe(401)
    expect(service.logs()).not.toContain(key)
    await service.stop()
  })
})
