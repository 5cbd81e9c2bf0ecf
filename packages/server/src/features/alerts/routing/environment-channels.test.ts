import type { ChannelView } from '@wardline/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readConfig } from '../../../config/config.ts'
import { openTestService, type TestService } from '../../../testing/service.ts'
import { environmentChannels } from './environment-channels.ts'
import { signingSettings } from './sealed-settings.ts'

const secrets = ['n', 'o'].map((letter) => `whsec_${Buffer.alloc(32, letter).toString('base64')}`)
const env = {
  ALERT_WEBHOOK_URL: 'https://alerts.example.com/in?token=CANARY-HOOK',
  ALERT_WEBHOOK_SECRET: secrets.join(' '),
  SLACK_WEBHOOK_URL: 'https://hooks.slack.com/services/CANARY-SLACK',
  DISCORD_WEBHOOK_URL: 'https://discord.com/api/webhooks/1/CANARY-DISCORD',
  TEAMS_WEBHOOK_URL: 'https://prod-1.logic.azure.com/workflows/CANARY-TEAMS',
  TELEGRAM_BOT_TOKEN: '123456:CANARY-TELEGRAM',
  TELEGRAM_CHAT_ID: '-100200',
  PAGERDUTY_ROUTING_KEY: 'CANARYPAGER'.padEnd(32, 'x'),
  SMTP_URL: 'smtps://user:CANARY-MAIL@mail.example.com',
  ALERT_EMAIL_FROM: 'wardline@example.com',
  ALERT_EMAIL_TO: 'a@example.com, b@example.com',
  NTFY_URL: 'http://10.0.0.9/CANARY-NTFY',
}
const ids = ['webhook', 'slack', 'discord', 'teams', 'telegram', 'pagerduty', 'email', 'ntfy'].map((t) => `env-${t}`)

describe('channels of the environment', () => {
  it('are none if no variable is set', () => {
    expect(environmentChannels(readConfig({}))).toEqual([])
  })

  it('are one per receiver that is set', () => {
    const channels = environmentChannels(readConfig(env))
    expect(channels.map(({ id }) => id)).toEqual(ids)
    expect(channels.map(({ name }) => name)).toContain('PagerDuty (environment)')
    expect(channels.find(({ type }) => type === 'email')?.settings).toEqual({
      url: env.SMTP_URL,
      from: env.ALERT_EMAIL_FROM,
      to: ['a@example.com', 'b@example.com'],
    })
    expect(channels.find(({ type }) => type === 'telegram')?.settings).toEqual({
      token: env.TELEGRAM_BOT_TOKEN,
      chat_id: '-100200',
    })
  })

  it('sign webhooks with the new and the old secret, and do not sign without a secret', () => {
    const [hook] = environmentChannels(readConfig(env))
    expect(hook).toMatchObject({ settings: { secret: secrets[0] } })
    const signing = signingSettings(hook as never, Number.MAX_SAFE_INTEGER)
    expect(signing).toMatchObject({ secret: secrets[0], previous_secrets: [secrets[1]] })
    const [unsigned] = environmentChannels(readConfig({ ALERT_WEBHOOK_URL: env.ALERT_WEBHOOK_URL }))
    expect(unsigned?.settings).toEqual({ url: env.ALERT_WEBHOOK_URL })
  })
})

describe('a service with channels in its environment', () => {
  let service: TestService
  beforeAll(async () => {
    service = await openTestService({ env })
    // The dispatcher is closed, so that nothing is sent to the receivers of these tests.
    await service.services.dispatcher.close(0)
  })
  afterAll(() => service[Symbol.asyncDispose]())

  const list = async (of = service) =>
    (await of.call<{ channels: ChannelView[] }>('GET', '/api/alert-channels')).body.channels
  const change = (id: string, body: object) =>
    service.call<{ error?: string }>('PATCH', `/api/alert-channels/${id}`, { body })

  it('shows them with their hosts, and has their settings in memory', async () => {
    const channels = await list()
    expect(channels.map(({ id }) => id).sort()).toEqual([...ids].sort())
    const byId = Object.fromEntries(channels.map((channel) => [channel.id, channel]))
    expect(byId['env-slack']).toMatchObject({
      name: 'Slack (environment)',
      managed_by: 'environment',
      destination: 'hooks.slack.com',
      min_severity: 'warning',
      state: 'ok',
    })
    expect(byId['env-webhook']).toMatchObject({ destination: 'alerts.example.com', min_severity: 'info' })
    const known = service.services.routingTable.current.channels
    expect(known.find(({ id }) => id === 'env-ntfy')?.settings).toEqual({ url: env.NTFY_URL })
  })

  // Copies and backups of the database are stored in more places than the environment of the service.
  it('does not store, show or log their secrets', async () => {
    await change('env-slack', { min_severity: 'breach' })
    for (const table of await service.tables()) {
      const rows = JSON.stringify(await service.rows(`select * from ${table}`))
      expect(rows, table).not.toContain('CANARY')
      expect(rows, table).not.toContain('whsec_')
    }
    const replies = [await service.call('GET', '/api/alert-channels'), await service.call('GET', '/api/audit')]
    for (const { text } of replies) expect(text).not.toMatch(/CANARY|whsec_/)
    expect(service.logged.join()).not.toMatch(/CANARY|whsec_/)
  })

  it('accepts changes of their options, including disabling and enabling', async () => {
    await service.execute(`update counters set value = value + 9 where name = 'alert_seq'`)
    expect((await change('env-discord', { min_severity: 'critical', max_per_minute: 5 })).status).toBe(200)
    await change('env-discord', { enabled: false })
    const known = () => service.services.routingTable.current.channels.find(({ id }) => id === 'env-discord')
    expect(known()).toMatchObject({ min_severity: 'critical', max_per_minute: 5, enabled: false })
    await change('env-discord', { enabled: true })
    expect((await list()).find(({ id }) => id === 'env-discord')).toMatchObject({ state: 'ok', behind: 0 })
  })

  // An attacker with a stolen operator key must not redirect a channel that the administrator of the host configured.
  it('refuses to rename, redirect, delete or rotate them, and the error names the environment', async () => {
    const channels = () => service.rows('select id, name, sealed, destination, enabled from alert_channels order by id')
    const before = await channels()
    const answers = [
      await change('env-slack', { name: 'Mine' }),
      await change('env-slack', { settings: { url: 'https://attacker.example/' } }),
      await change('env-slack', { enabled: false, settings: {} }),
      await service.call<{ error?: string }>('DELETE', '/api/alert-channels/env-slack'),
      await service.call<{ error?: string }>('POST', '/api/alert-channels/env-webhook/rotate-secret', { body: {} }),
    ]
    for (const { status, body } of answers) {
      expect([status, body.error]).toEqual([400, expect.stringContaining('set by environment variables: change them')])
    }
    expect(await channels()).toEqual(before)
  })

  it('has each of them once if several processes start concurrently, and keeps changed options', async () => {
    const { dataDir } = service.deps.config
    await change('env-teams', { min_severity: 'breach' })
    await service.execute(`update alert_channels set planned_seq = 3 where id = 'env-teams'`)
    const moved = { ...env, SLACK_WEBHOOK_URL: 'https://hooks.slack.example/x' }
    const others = await Promise.all([1, 2, 3].map(() => openTestService({ dataDir, env: moved })))
    try {
      for (const other of others) {
        const channels = await list(other)
        expect(channels).toHaveLength(ids.length)
        expect(channels.find(({ id }) => id === 'env-teams')).toMatchObject({ min_severity: 'breach' })
        expect(channels.find(({ id }) => id === 'env-slack')).toMatchObject({ destination: 'hooks.slack.example' })
      }
      expect(await service.rows(`select planned_seq from alert_channels where id = 'env-teams'`)).toEqual([
        { planned_seq: 3 },
      ])
    } finally {
      for (const other of others) await other[Symbol.asyncDispose]()
    }
  })

  it('no longer has a channel that was removed from its environment', async () => {
    const { dataDir } = service.deps.config
    await using bare = await openTestService({ dataDir, env: { NTFY_URL: env.NTFY_URL } })
    expect((await list(bare)).map(({ id }) => id)).toEqual(['env-ntfy'])
    expect(bare.services.routingTable.current.channels.map(({ id }) => id)).toEqual(['env-ntfy'])
    expect((await bare.call('GET', '/api/alert-channels/env-slack')).status).toBe(404)
  })
})
