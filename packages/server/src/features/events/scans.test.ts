import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import type { Db } from '../../db/database.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { matching } from './queries.ts'

const report = (description: string, metadata?: unknown) => ({
  severity: 'info',
  source: 'scans',
  event_type: 'note',
  description,
  instance_id: 'agent-a',
  ...(metadata === undefined ? {} : { metadata }),
})

// PGlite has a single connection for everything.
const hasConnections = process.env.TEST_ENGINE !== 'pglite'
/** A read that keeps its connection busy for a good part of a second. */
const longRead = (db: Db) =>
  sql`with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < ${hasConnections ? 1_200_000 : 1_000})
    select count(*) from numbers`.execute(db)

/** Starts scans for a caller that end when they are released. */
function blockScans({ deps }: TestService, caller: string, count: number) {
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  const blocked = Promise.allSettled(Array.from({ length: count }, () => deps.database.scan(caller, () => released)))
  return async () => {
    release()
    await blocked
  }
}

interface Page {
  events: { seq: number }[]
  next: string | null
}

// Without the index, listing the breaches of a fleet that has none reads every stored event.
if (process.env.TEST_ENGINE === 'sqlite') {
  test('lists the events of a severity by index', async () => {
    await using service = await openTestService()
    const { db } = service.deps.database
    const { sql: text, parameters } = matching(db, { severity: 'breach' }).orderBy('seq', 'desc').limit(200).compile()
    expect(parameters).toEqual([200])
    const plan = await sql<{ detail: string }>`explain query plan ${sql.raw(text.replace('?', '200'))}`.execute(db)
    expect(plan.rows.map(({ detail }) => detail).join()).toContain('events_by_severity')
  })
}

describe('scans of many rows', () => {
  // Otherwise a viewer key could disable decoy checks by searching all the time: an SDK that gets no response may run
  // the tool.
  test('never delay the requests of an agent', async () => {
    await using service = await openTestService()
    await service.call('POST', '/api/heartbeat', { body: { instance_id: 'agent-a', name: 'A' } })
    const { body: decoy } = await service.call<{ key: string }>('POST', '/api/honeypots', {
      body: { instanceId: 'agent-a', type: 'api_key', keyType: 'generic' },
    })
    // The lane opens its connection with the first scan.
    await service.call('GET', '/api/events')
    const headers = { 'idempotency-key': 'once' }
    const askAll = async () => {
      const answers = [
        await service.call('GET', '/api/instances/agent-a/status'),
        await service.call('POST', '/api/honeypots/check/key', { body: { key: decoy.key } }),
        await service.call('POST', '/api/honeypots/check/path', { body: { path: '/etc/hosts' } }),
        await service.call('POST', '/api/events', { body: report('first'), headers }),
        await service.call('POST', '/api/events', { body: report('first'), headers }),
        await service.call('POST', '/api/events', { body: { ...report('{"n":1}'), event_type: 'session_metrics' } }),
      ]
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 201, 201, 201])
      expect(answers[1]!.body).toEqual({ matched: true })
    }
    /** Whether a scan that started before was still running after all responses. */
    const answersBesideScan = async () => {
      let isOver = false
      // The server ends a scan that takes too long.
      const scan = service.deps.database
        .scan('viewer', longRead)
        .catch(() => {})
        .finally(() => {
          isOver = true
        })
      await askAll()
      const wasOver = isOver
      await scan
      return !wasOver
    }
    // The scan may finish first by chance, so retry; requests that wait for the scan lose every attempt.
    let isBeside = false
    for (let attempt = 0; attempt < 20 && !isBeside; attempt++) isBeside = await answersBesideScan()
    if (hasConnections) expect(isBeside, 'every scan ended before the answers').toBe(true)
  })

  test('return 503 with Retry-After to a key with too many queued, while other keys are served', async () => {
    await using service = await openTestService()
    const flood = await service.createKey('viewer')
    const other = await service.createKey('viewer')
    const endAll = blockScans(service, flood.id, 18)
    const refused = await service.call('GET', '/api/events?q=x', { key: flood.key })
    expect([refused.status, refused.headers['retry-after'], refused.text]).toEqual([
      503,
      '1',
      '{"error":"Too many queued searches and lists; retry in a moment."}',
    ])
    const waiting = service.call('GET', '/api/events', { key: other.key })
    expect((await service.call('GET', '/api/instances/agent-x/status', { key: flood.key })).status).toBe(404)
    await endAll()
    expect((await waiting).status).toBe(200)
    expect((await service.call('GET', '/api/events?q=x', { key: flood.key })).status).toBe(200)
  })

  // 1,000 rows of 17 KiB would be a response of 17 MiB, built in one turn of the event loop.
  test('end a page of large rows early without skipping a row', async () => {
    await using service = await openTestService()
    const count = 300
    const metadata = { text: 'x'.repeat(16_000) }
    await Promise.all(
      Array.from({ length: count }, (_, n) => service.call('POST', '/api/events', { body: report(`${n}`, metadata) })),
    )
    const seqs: number[] = []
    let pages = 0
    for (let before = ''; ; ) {
      const { body, text } = await service.call<Page>('GET', `/api/events?limit=1000&instance_id=agent-a${before}`)
      expect(text.length).toBeLessThan(6 * 1024 * 1024)
      seqs.push(...body.events.map(({ seq }) => seq))
      pages += 1
      if (body.next === null) break
      before = `&before=${body.next}`
    }
    expect(seqs).toEqual(Array.from({ length: count }, (_, n) => count - n))
    expect(pages).toBeGreaterThan(1)
  })
})
