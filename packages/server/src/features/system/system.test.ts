import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { SystemView } from '@wardline/contract'
import { afterAll, expect, it } from 'vitest'
import { settings } from '../../config/config.ts'
import { startJobs } from '../../jobs.ts'
import { openTestService, type TestService } from '../../testing/service.ts'

const folder = mkdtempSync(join(tmpdir(), 'wardline-system-'))
afterAll(() => rmSync(folder, { recursive: true }))

const system = async (service: TestService) => (await service.call<SystemView>('GET', '/api/system')).body

it('GET /api/system returns health, storage and limits', async () => {
  await using service = await openTestService({ env: { WARDLINE_MAX_DB_MB: '200', WARDLINE_MAX_INSTANCES: '7' } })
  expect((await system(service)).storage).toMatchObject({ events_at_most: 0, oldest_event_at: null, instances: 0 })
  await service.call('POST', '/api/heartbeat', { body: { instance_id: 'a', name: 'a' } })
  const oldest = new Date(service.clock.now()).toISOString()
  for (let count = 0; count < 3; count++) {
    const body = { severity: 'info', source: 's', event_type: 'note', description: 'x' }
    expect((await service.call('POST', '/api/events', { body })).status).toBe(201)
    service.clock.advance(1_000)
  }
  const { health, storage, version } = await system(service)
  expect(version).toMatch(/^\d/)
  expect(health).toEqual({ ok: true, database: 'ok', backplane: 'in-process', clock_offset_ms: 0 })
  expect(storage).toMatchObject({
    max_bytes: 200 * 1024 * 1024,
    retention_days: 90,
    events_at_most: 3,
    oldest_event_at: oldest,
    instances: 1,
    max_instances: 7,
  })
  expect(storage.used_bytes).toBeGreaterThan(10_000)
})

it('GET /api/system is limited to operators and admins', async () => {
  await using service = await openTestService()
  for (const [scope, status] of [
    ['agent', 403],
    ['viewer', 403],
    ['operator', 200],
  ] as const) {
    const { key } = await service.createKey(scope)
    expect((await service.call('GET', '/api/system', { key })).status, scope).toBe(status)
  }
})

it('GET /api/system lists the last success, last error and next run of each job', async () => {
  await using service = await openTestService()
  const { deps, services, clock } = service
  let fails = true
  const jobs = [
    {
      name: 'moody',
      everyMs: 60_000,
      run: () => (fails ? Promise.reject(new Error('the disk is full')) : Promise.resolve()),
    },
  ]
  const at = () => new Date(clock.now()).toISOString()
  await startJobs(jobs, deps, services)()
  const failedAt = at()
  const next_run_at = new Date(clock.now() + 60_000).toISOString()
  expect((await system(service)).jobs).toEqual([
    {
      name: 'moody',
      every_ms: 60_000,
      is_running: false,
      last_success_at: null,
      last_failure_at: failedAt,
      last_error: 'the disk is full',
      next_run_at,
    },
  ])
  fails = false
  clock.advance(5_000)
  await startJobs(jobs, deps, services)()
  expect((await system(service)).jobs).toMatchObject([
    { last_success_at: at(), last_failure_at: failedAt, last_error: 'the disk is full' },
  ])
})

// More people see the screens that show this response than may know a secret.
it('GET /api/system contains no part of a secret setting, even in job errors', async () => {
  const canary = `canary${randomBytes(16).toString('hex')}`
  const fitting: Record<string, string> = {
    ALERT_WEBHOOK_URL: `https://hooks.example.com/${canary}`,
    ALERT_WEBHOOK_SECRET: `whsec_${Buffer.from(canary).toString('base64')}`,
    SLACK_WEBHOOK_URL: `https://hooks.slack.com/services/T0/B0/${canary}`,
    DISCORD_WEBHOOK_URL: `https://discord.com/api/webhooks/1/${canary}`,
    TEAMS_WEBHOOK_URL: `https://example.webhook.office.com/${canary}`,
    TELEGRAM_BOT_TOKEN: `123456:${canary}`,
    PAGERDUTY_ROUTING_KEY: canary.slice(0, 32),
    SMTP_URL: `smtp://user:${canary}@mail.example.com`,
    NTFY_URL: `https://ntfy.example.com/${canary}`,
    TRUST_RPC_URL: `https://node.example.com/${canary}`,
    TRUST_SIGNER_URL: `https://signer.example.com/${canary}`,
  }
  // DATABASE_URL is that of the test, and a backplane needs a server. config.test.ts covers both.
  const names = Object.values(settings).flatMap(({ env, secret }) => (secret ? [env] : []))
  const set = names.filter((name) => !['DATABASE_URL', 'BACKPLANE_URL', 'WARDLINE_API_KEY'].includes(name))
  const env = Object.fromEntries(
    set.map((name) => {
      const file = join(folder, name)
      writeFileSync(file, fitting[name] ?? canary)
      return [`${name}_FILE`, file]
    }),
  )
  const mail = { ALERT_EMAIL_FROM: 'a@example.com', ALERT_EMAIL_TO: 'a@example.com', TELEGRAM_CHAT_ID: '1' }
  const wallet = { TRUST_WALLET_ADDRESS: `0x${'1'.repeat(40)}` }
  const oidc = {
    WARDLINE_PUBLIC_URL: 'https://wardline.example.com',
    WARDLINE_OIDC_ISSUER: 'https://login.example.com',
    WARDLINE_OIDC_CLIENT_ID: 'wardline',
  }
  await using service = await openTestService({ env: { ...env, ...mail, ...oidc, ...wallet } })
  const { deps, services } = service
  const quoting = () => Promise.reject(new Error(`no answer of ${deps.config.ntfyUrl} for ${deps.config.smtpUrl}`))
  await startJobs([{ name: 'quoting', everyMs: 60_000, run: quoting }], deps, services)()
  const { text, body } = await service.call<SystemView>('GET', '/api/system')
  expect(body.jobs).toMatchObject([{ last_error: 'no answer of (secret) for (secret)' }])
  for (const part of [canary, canary.slice(0, 32), fitting.ALERT_WEBHOOK_SECRET!.slice(6)]) {
    expect(text).not.toContain(part)
  }
  const shown = body.configuration.filter(({ is_secret }) => is_secret)
  expect(shown.map(({ name }) => name)).toEqual(names)
  for (const { name, value, source } of shown.filter((setting) => set.includes(setting.name))) {
    expect({ value, source }, name).toEqual({ value: 'set', source: 'file' })
  }
  expect(body.channels.length).toBeGreaterThan(5)
})
