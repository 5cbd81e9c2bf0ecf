import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { createLog, openDeps, readConfig, startServer } from '@wardline/server'
import { currentSigningKey, type SigningKey } from '../packages/server/src/features/audit/signing-keys.ts'
import { readHeardBy } from '../packages/server/src/features/instances/heard-by.ts'

/** What the service exports for the vectors, and the key that signed it. */
export interface Exported {
  bundles: Record<'valid' | 'valid-genesis' | 'valid-empty', Buffer>
  /** Answer of /.well-known/wardline-keys.json. */
  keys: string
  key: SigningKey
}

const hour = 3_600_000
const begin = Date.UTC(2026, 2, 2, 9)
// Public, like the private key that is derived from it: bundles of the vectors prove nothing.
const secret = 'the public master secret of the test vectors'
const adminKey = 'the-public-administrator-key-of-the-test-vectors'

const iso = (at: number) => new Date(at).toISOString()

/** Lets a service with a fixed clock live through an incident, and exports it. Its random numbers must be fixed too. */
export async function exportedBundles(): Promise<Exported> {
  const folder = mkdtempSync(join(tmpdir(), 'wardline-vectors-'))
  mkdirSync(join(folder, 'rules'))
  let now = begin
  const config = readConfig({
    WARDLINE_DATA_DIR: join(folder, 'data'),
    WARDLINE_SECRET: secret,
    WARDLINE_API_KEY: adminKey,
    WARDLINE_RULES_DIR: join(folder, 'rules'),
    PORT: '0',
  })
  const options = { clock: { now: () => now, monotonic: () => now - begin }, log: createLog('silent') }
  const service = await startServer(config, options)
  try {
    const send = async (path: string, body?: object, key = adminKey): Promise<Response> => {
      const headers = { 'x-monitor-key': key, 'content-type': 'application/json' }
      const request = body === undefined ? { headers } : { headers, method: 'POST', body: JSON.stringify(body) }
      const answer = await fetch(new URL(path, service.url), request)
      if (!answer.ok) throw new Error(`${path} answers ${answer.status}: ${await answer.text()}`)
      now += 1_250
      return answer
    }
    const exported = async (from: number, to: number) => {
      const range = new URLSearchParams({ instance_id: 'support-bot-1', from: iso(from), to: iso(to) })
      return Buffer.from(await (await send(`/api/incidents/export?${range}`)).arrayBuffer())
    }
    await send('/api/heartbeat', { instance_id: 'support-bot-1', name: 'Support bot' })
    await send('/api/heartbeat', { instance_id: 'billing-1', name: 'Billing' })
    // Written in the background. Read from the database, because each request has a number, which the audit log keeps.
    const deps = await openDeps(config, options)
    while ((await readHeardBy(deps.database.db, ['support-bot-1'], now)).size === 0) await setTimeout(20)
    const operator = await send('/api/keys', { scope: 'operator', name: 'Größe 🦊' })
    const { key } = (await operator.json()) as { key: string }
    await send('/api/kill/billing-1', { reason: 'Another agent, whose entries are withheld' }, key)

    now = begin + hour
    const from = now
    await send('/api/resume/billing-1', {}, key)
    await send('/api/honeypots', { type: 'file_path', path: '/srv/decoy', instanceId: 'support-bot-1' })
    for (const tool of ['file-read', 'http-request']) {
      const description = `Called ${tool}`
      await send('/api/events', {
        ...{ severity: 'info', source: 'support-bot-1', instance_id: 'support-bot-1', event_type: 'tool_call' },
        ...{ description, session_id: 's-81', metadata: { tool, duration_ms: 12.5 } },
      })
    }
    await send('/api/kill/support-bot-1', { reason: 'Sends “secrets” away: 秘密 🦊\u2028</script>' }, key)
    await send('/api/resume/support-bot-1', {}, key)
    await send('/api/kill/billing-1', { reason: 'Another agent again' }, key)
    const to = now

    now = begin + 2 * hour
    const bundles = {
      valid: await exported(from, to),
      'valid-genesis': await exported(begin, from),
      'valid-empty': await exported(to, begin + 2 * hour),
    }
    const keys = await (await send('/.well-known/wardline-keys.json')).text()
    const signing = await currentSigningKey(deps, now)
    await deps.close()
    return { bundles, keys, key: signing }
  } finally {
    await service.close()
    rmSync(folder, { recursive: true })
  }
}
