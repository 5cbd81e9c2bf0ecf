import type { ChannelView } from '@wardline/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTestService, type TestService } from '../../../testing/service.ts'
import { signingSettings } from './sealed-settings.ts'

let service: TestService
beforeAll(async () => {
  service = await openTestService({ env: { WARDLINE_ALERT_ALLOW_CIDRS: '198.51.100.0/24' } })
  // The dispatcher is closed, so that nothing is sent to the receivers of these tests.
  await service.services.dispatcher.close(0)
})
afterAll(() => service[Symbol.asyncDispose]())

interface Created {
  id: string
  secret?: string
  error?: string
}
const pager = { name: 'On call', type: 'pagerduty', settings: { routing_key: 'R0'.repeat(16) } }
const hook = { name: 'Archive', type: 'webhook', settings: { url: 'https://198.51.100.7/in?token=t' } }
const givenSecret = `whsec_${Buffer.alloc(32, 's').toString('base64')}`

const create = (body: object) => service.call<Created>('POST', '/api/alert-channels', { body })
const change = (id: string, body: object) =>
  service.call<{ error?: string }>('PATCH', `/api/alert-channels/${id}`, { body })
const remove = (id: string) => service.call('DELETE', `/api/alert-channels/${id}`)
const rotate = (id: string, body: object = {}) =>
  service.call<Created>('POST', `/api/alert-channels/${id}/rotate-secret`, { body })
const view = async (id: string) => (await service.call<ChannelView>('GET', `/api/alert-channels/${id}`)).body
const list = async () => (await service.call<{ channels: ChannelView[] }>('GET', '/api/alert-channels')).body.channels
const known = (id: string) => service.services.routingTable.current.channels.find((channel) => channel.id === id)
const signers = (id: string) => signingSettings(known(id)!, service.clock.now())
const audited = async (target: string) =>
  (await service.rows<{ action: string; before: string; after: string; target: string }>('select * from audit_log'))
    .filter((row) => row.target === target)
    .map(({ action, before, after }) => ({ action, before: JSON.parse(before), after: JSON.parse(after) }))

/** Inserts deliveries, messages and a group, as alerts of a channel leave them. */
async function plantBacklog(id: string): Promise<void> {
  const message = `'warning', '{}', 1, 1`
  await service.execute(`
    insert into alert_deliveries (alert_seq, channel_id, outcome, message_id)
      values (1, '${id}', 'joined', 'm-${id}'), (2, '${id}', 'sent', 'k-${id}');
    insert into alert_messages (id, channel_id, kind, title, state, severity, content, created_at, due_at)
      values ('p-${id}', '${id}', 'alert', 't', 'pending', ${message}), ('d-${id}', '${id}', 'alert', 't', 'dead', ${message}),
        ('k-${id}', '${id}', 'alert', 't', 'delivered', ${message});
    update alert_messages set leased_until = 5, lease_owner = 'x' where id = 'p-${id}'`)
  await service.execute(`insert into alert_groups (channel_id, name, severity, waiting, messages, reminders, state, message_id)
    values ('${id}', 'g', 'warning', 1, 1, 0, 'open', 'm-${id}')`)
}
async function backlogOf(id: string) {
  const where = `where channel_id = '${id}'`
  return {
    deliveries: await service.rows(`select alert_seq, outcome from alert_deliveries ${where} order by alert_seq`),
    groups: await service.rows(`select name from alert_groups ${where}`),
    messages: await service.rows(`select state, last_error, lease_owner from alert_messages ${where} order by id`),
  }
}
const dropped = (reason: string) => ({
  deliveries: [
    { alert_seq: 1, outcome: 'joined' },
    { alert_seq: 2, outcome: 'sent' },
  ],
  groups: [],
  messages: [
    { state: 'dead', last_error: null, lease_owner: null },
    { state: 'delivered', last_error: null, lease_owner: null },
    { state: 'dead', last_error: reason, lease_owner: null },
  ],
})

describe('a channel', () => {
  it('is available to this process after it is created, with the defaults of its type', async () => {
    const { status, body } = await create(pager)
    expect(status).toBe(201)
    expect(body).toEqual({ ok: true, id: body.id })
    expect(known(body.id)).toEqual({
      id: body.id,
      name: 'On call',
      type: 'pagerduty',
      managed_by: 'api',
      min_severity: 'warning',
      enabled: true,
      send_resolved: true,
      daily_check: true,
      personal_mail: false,
      max_per_minute: 20,
      quiet_hours: null,
      settings: pager.settings,
      previous_secrets: [],
    })
    expect(await view(body.id)).toEqual({
      id: body.id,
      name: 'On call',
      type: 'pagerduty',
      managed_by: 'api',
      destination: 'events.pagerduty.com',
      min_severity: 'warning',
      enabled: true,
      decides: false,
      send_resolved: true,
      daily_check: true,
      personal_mail: false,
      max_per_minute: 20,
      quiet_hours: null,
      state: 'ok',
      paused_until: null,
      waiting: 0,
      dead: 0,
      behind: 0,
      last_delivered_at: null,
      last_error: null,
      last_error_at: null,
    })
    expect((await list()).map(({ id }) => id)).toContain(body.id)
    expect(await audited(body.id)).toMatchObject([
      { action: 'alert_channel.create', before: null, after: { name: 'On call', destination: 'events.pagerduty.com' } },
    ])
  })

  it('only receives alerts after its creation', async () => {
    await service.execute(`update counters set value = value + 7 where name = 'alert_seq'`)
    const { body } = await create(pager)
    expect((await view(body.id)).behind).toBe(0)
    await service.execute(`update counters set value = value + 3 where name = 'alert_seq'`)
    expect((await view(body.id)).behind).toBe(3)
  })

  it('shows its waiting and dead messages and its last error', async () => {
    const { body } = await create(pager)
    await plantBacklog(body.id)
    await service.execute(
      `update alert_channels set failing_since = 1, last_error = 'It did not answer.', last_error_at = 2000 where id = '${body.id}'`,
    )
    expect(await view(body.id)).toMatchObject({
      state: 'failing',
      waiting: 1,
      dead: 1,
      last_error: 'It did not answer.',
      last_error_at: '1970-01-01T00:00:02.000Z',
    })
  })

  it('only changes in the given fields', async () => {
    const { body } = await create(pager)
    const quiet_hours = { from: '22:00', to: '07:00', time_zone: 'Europe/Berlin' }
    const answer = await change(body.id, { name: 'Night', min_severity: 'breach', quiet_hours })
    expect(answer).toMatchObject({ status: 200, body: { ok: true, id: body.id } })
    expect(known(body.id)).toMatchObject({
      name: 'Night',
      min_severity: 'breach',
      quiet_hours,
      max_per_minute: 20,
      settings: pager.settings,
    })
    await change(body.id, { quiet_hours: null, send_resolved: false })
    expect(known(body.id)).toMatchObject({ name: 'Night', quiet_hours: null, send_resolved: false })
    expect(await audited(body.id)).toMatchObject([
      { action: 'alert_channel.create' },
      {
        action: 'alert_channel.change',
        before: { name: 'On call', min_severity: 'warning', quiet_hours: null },
        after: { name: 'Night', min_severity: 'breach', quiet_hours },
      },
      { action: 'alert_channel.change', before: { quiet_hours }, after: { quiet_hours: null, send_resolved: false } },
    ])
  })

  it('accepts new settings, and the audit entry only says that they were replaced', async () => {
    const { body } = await create(pager)
    await change(body.id, { settings: { routing_key: 'S1'.repeat(16), region: 'eu' } })
    expect(known(body.id)).toMatchObject({ settings: { routing_key: 'S1'.repeat(16), region: 'eu' } })
    expect((await view(body.id)).destination).toBe('events.eu.pagerduty.com')
    const [, entry] = await audited(body.id)
    expect(entry).toMatchObject({ after: { destination: 'events.eu.pagerduty.com', settings_replaced: true } })
    expect(entry!.before).not.toHaveProperty('settings_replaced')
  })

  it('that is disabled drops its waiting alerts, and is reset when it is enabled', async () => {
    const { body } = await create(pager)
    await plantBacklog(body.id)
    await service.execute(
      `update alert_channels set failures = 4, resume_at = 9, failing_since = 3 where id = '${body.id}'`,
    )
    await change(body.id, { enabled: false })
    expect(await backlogOf(body.id)).toEqual(dropped('The channel was disabled.'))
    await service.execute(`update counters set value = value + 5 where name = 'alert_seq'`)
    expect(await view(body.id)).toMatchObject({ state: 'disabled', enabled: false, behind: 0, waiting: 0 })
    await change(body.id, { enabled: true })
    expect(await view(body.id)).toMatchObject({ state: 'ok', enabled: true, behind: 0 })
    expect(await service.rows(`select failures, resume_at from alert_channels where id = '${body.id}'`)).toEqual([
      { failures: 0, resume_at: null },
    ])
  })

  it('keeps its waiting alerts if another field changes', async () => {
    const { body } = await create(pager)
    await plantBacklog(body.id)
    const before = await backlogOf(body.id)
    await change(body.id, { enabled: true, name: 'Still on' })
    expect(await backlogOf(body.id)).toEqual(before)
  })

  it('that is deleted drops its waiting alerts', async () => {
    const { body } = await create(pager)
    const other = (await create(pager)).body
    await plantBacklog(body.id)
    await plantBacklog(other.id)
    expect((await remove(body.id)).body).toEqual({ ok: true, id: body.id })
    expect(known(body.id)).toBeUndefined()
    expect(await backlogOf(body.id)).toEqual(dropped('The channel was deleted.'))
    expect((await backlogOf(other.id)).groups).toHaveLength(1)
    expect((await audited(body.id)).at(-1)).toMatchObject({
      action: 'alert_channel.delete',
      before: { name: 'On call' },
      after: null,
    })
  })

  it('that is unknown gets 404 from every endpoint', async () => {
    const id = '01970000-0000-7000-8000-000000000000'
    const { status: seen } = await service.call('GET', `/api/alert-channels/${id}`)
    const changed = await change(id, { name: 'x' })
    const replaced = await change(id, { settings: pager.settings })
    const answers = [seen, changed.status, replaced.status, (await remove(id)).status, (await rotate(id)).status]
    expect(answers).toEqual([404, 404, 404, 404, 404])
    expect((await change('env-slack', { name: 'x' })).status).toBe(404)
  })

  it('is not changed if its audit entry fails to be stored', async () => {
    const { body } = await create(pager)
    // Without the columns of its health, which messages in flight still change.
    const channels = () => service.rows('select id, name, sealed, destination, enabled from alert_channels order by id')
    const before = await channels()
    const [counted] = await service.rows(`select value from counters where name = 'alert_config'`)
    const allow = await service.refuse('insert', 'audit_log')
    try {
      expect((await change(body.id, { name: 'Unseen', enabled: false })).status).toBe(500)
      expect((await remove(body.id)).status).toBe(500)
    } finally {
      await allow()
    }
    expect(await channels()).toEqual(before)
    expect(await service.rows(`select value from counters where name = 'alert_config'`)).toEqual([counted])
  })
})

describe('the signing secret of a webhook', () => {
  it('is generated if none is given, and the response to the creation contains it', async () => {
    const { body } = await create(hook)
    expect(body.secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
    expect(known(body.id)?.settings).toEqual({ ...hook.settings, secret: body.secret })
    const given = await create({ ...hook, settings: { ...hook.settings, secret: givenSecret } })
    expect(given.body).toEqual({ ok: true, id: given.body.id })
    expect(known(given.body.id)?.settings).toMatchObject({ secret: givenSecret })
  })

  it('is rotated with an overlap, one day by default', async () => {
    const { body } = await create(hook)
    const { status, body: rotated } = await rotate(body.id)
    expect(status).toBe(201)
    expect(rotated.secret).toMatch(/^whsec_/)
    expect(signers(body.id)).toEqual({ ...hook.settings, secret: rotated.secret, previous_secrets: [body.secret] })
    service.clock.advance(86_399_999)
    expect(signers(body.id)).toHaveProperty('previous_secrets', [body.secret])
    service.clock.advance(1)
    expect(signers(body.id)).toEqual({ ...hook.settings, secret: rotated.secret })
    expect((await audited(body.id)).at(-1)).toMatchObject({ action: 'alert_channel.rotate_secret' })
  })

  // A rotation without overlap means that the secret leaked, so no older secret may sign.
  it('ends immediately without an overlap, together with all previous secrets', async () => {
    const { body } = await create(hook)
    const second = (await rotate(body.id, { overlap_seconds: 600 })).body.secret
    const third = (await rotate(body.id, { overlap_seconds: 60 })).body.secret
    expect(signers(body.id)).toMatchObject({ secret: third, previous_secrets: [second, body.secret] })
    service.clock.advance(60_000)
    expect(signers(body.id)).not.toHaveProperty('previous_secrets')
    const fourth = (await rotate(body.id)).body.secret
    const last = (await rotate(body.id, { overlap_seconds: 0 })).body.secret
    expect(signers(body.id)).toEqual({ ...hook.settings, secret: last })
    expect(last).not.toBe(fourth)
  })

  it('has at most four previous secrets', async () => {
    const { body } = await create(hook)
    const secrets = [body.secret]
    for (let round = 0; round < 6; round++) secrets.unshift((await rotate(body.id)).body.secret)
    expect(signers(body.id)).toMatchObject({ secret: secrets[0], previous_secrets: secrets.slice(1, 5) })
  })

  it('stays if the URL changes, and is replaced with its previous secrets if another one is given', async () => {
    const { body } = await create(hook)
    const rotated = (await rotate(body.id)).body.secret
    const moved = { url: 'https://198.51.100.8/in' }
    await change(body.id, { settings: moved })
    expect(signers(body.id)).toEqual({ ...moved, secret: rotated, previous_secrets: [body.secret] })
    await change(body.id, { settings: { ...moved, secret: givenSecret } })
    expect(signers(body.id)).toEqual({ ...moved, secret: givenSecret })
  })

  it('does not exist for another type of channel, so a rotation is refused', async () => {
    const { body } = await create(pager)
    const { status, body: answer } = await rotate(body.id)
    expect([status, answer.error]).toEqual([400, 'Only a channel of type webhook has a signing secret.'])
  })
})

describe('a refused request', () => {
  const hours = { from: '22:00', to: '07:00', time_zone: 'UTC' }
  const withSettings = (type: string, settings: unknown) => ({ name: 'x', type, settings })
  it.each<[string, object, string]>([
    ['no name', { ...pager, name: undefined }, 'name is required.'],
    ['a blank name', { ...pager, name: ' ' }, 'name must not be blank.'],
    ['an unknown type', { ...pager, type: 'fax' }, 'type must be webhook, slack,'],
    ['no settings', { ...pager, settings: undefined }, 'settings is required.'],
    ['settings that are none', { ...pager, settings: 'x' }, 'settings must be an object.'],
    ['an unknown severity', { ...pager, min_severity: 'high' }, 'min_severity must be info, warning, critical, or'],
    ['too many messages', { ...pager, max_per_minute: 61 }, 'max_per_minute must be <= 60.'],
    [
      'no time of day',
      { ...pager, quiet_hours: { ...hours, from: '24:00' } },
      'quiet_hours.from must be a time of day',
    ],
    ['hours without end', { ...pager, quiet_hours: { ...hours, to: '22:00' } }, 'quiet_hours.to must differ from'],
    [
      'no time zone',
      { ...pager, quiet_hours: { ...hours, time_zone: 'Mars' } },
      'quiet_hours.time_zone must be an IANA',
    ],
    ['a webhook without URL', withSettings('webhook', {}), 'settings.url is required.'],
    ['a URL of another kind', withSettings('slack', { url: 'ftp://x' }), 'settings.url must be an http:// or https://'],
    ['a URL without host', withSettings('slack', { url: 'https://' }), 'settings.url must be a URL with a host name'],
    [
      'a URL with a space',
      withSettings('slack', { url: 'https://x/ y' }),
      'settings.url must be a URL with a host name',
    ],
    ['a URL with a line break', withSettings('slack', { url: 'https://x/\ny' }), 'settings.url must be a URL'],
    ['an unknown setting', withSettings('slack', { url: 'https://x', a: 1 }), 'settings.a is not a known field.'],
    [
      'a short secret',
      withSettings('webhook', { url: 'https://x', secret: 'whsec_YQ==' }),
      'settings.secret must be whsec_',
    ],
    [
      'a secret that is no base64',
      withSettings('webhook', { url: 'https://x', secret: `whsec_${'A'.repeat(33)}` }),
      'settings.secret must be whsec_ and the base64 of 24 to 64 bytes.',
    ],
    [
      'an unknown form',
      withSettings('webhook', { url: 'https://x', format: 'xml' }),
      'settings.format must be standard,',
    ],
    [
      'no token of a bot',
      withSettings('telegram', { token: 'x', chat_id: '1' }),
      'settings.token must be the token of',
    ],
    ['no chat', withSettings('telegram', { token: `1:${'a'.repeat(10)}` }), 'settings.chat_id is required.'],
    [
      'a strange chat',
      withSettings('telegram', { token: `1:${'a'.repeat(10)}`, chat_id: 'me' }),
      'settings.chat_id must',
    ],
    [
      'a short routing key',
      withSettings('pagerduty', { routing_key: 'R0' }),
      'settings.routing_key must be 32 letters',
    ],
    [
      'mail over HTTP',
      withSettings('email', { url: 'https://x', from: 'a@b.c', to: ['a@b.c'] }),
      'settings.url must be smtp://',
    ],
    [
      'mail without a host',
      withSettings('email', { url: 'smtp://', from: 'a@b.c', to: ['a@b.c'] }),
      'settings.url must be a URL with a host name',
    ],
    ['a mail to nobody', withSettings('email', { url: 'smtp://x', from: 'a@b.c', to: [] }), 'settings.to must have at'],
    [
      'a mail address with a name',
      withSettings('email', { url: 'smtp://x', from: 'A <a@b.c>', to: ['a@b.c'] }),
      'settings.from must be a mail address, without a name.',
    ],
    [
      'a second header in an address',
      withSettings('email', { url: 'smtp://x', from: 'a@b.c', to: ['a@b.c\r\nBcc: e@f.g'] }),
      'settings.to.0 must be a mail address',
    ],
    [
      'a password with a lone %',
      withSettings('email', { url: 'smtp://u:100%@x', from: 'a@b.c', to: ['a@b.c'] }),
      'settings.url must be a URL in whose user and password',
    ],
    [
      'a token with a line break',
      withSettings('ntfy', { url: 'https://x/t', token: 'a\nb' }),
      'settings.token may contain',
    ],
    ['syslog over UDP', withSettings('syslog', { url: 'udp://x:514' }), 'settings.url must be tcp://<host>:<port>'],
    ['syslog without a host', withSettings('syslog', { url: 'tcp://' }), 'settings.url must be a URL with a host name'],
    ['Splunk without a token', withSettings('splunk', { url: 'https://x:8088' }), 'settings.token is required.'],
  ])('is one with %s, and the error names the field', async (_what, body, sentence) => {
    const before = (await list()).length
    const answer = await create(body)
    expect(answer.status, answer.text).toBe(400)
    expect(answer.body.error).toContain(sentence)
    expect(answer.body.error).toMatch(/^[a-z_.0-9]+ .*[^.]\.$/)
    expect(await list()).toHaveLength(before)
  })

  // An operator could otherwise reach services inside the network of the service: its database, or the credentials that
  // clouds serve on 169.254.169.254.
  it.each([
    ['webhook', 'http://127.0.0.1:4747/api/kill', {}],
    ['slack', 'http://169.254.169.254/latest/meta-data', {}],
    ['ntfy', 'http://[::ffff:10.0.0.1]/topic', {}],
    ['splunk', 'https://localhost:8088', { token: 't' }],
    ['email', 'smtp://10.0.0.1:25', { from: 'a@b.c', to: ['a@b.c'] }],
    ['syslog', 'tcp://0x7f000001:514', {}],
  ])('is a %s channel with the internal address %s, at creation and at a change', async (type, url, others) => {
    const refused = await create({ name: 'x', type, settings: { url, ...others } })
    expect([refused.status, refused.body.error]).toEqual([400, expect.stringMatching(/^settings\.url .*[^.]\.$/)])
    const outside = url.replace(/\/\/[^/]*?(?=(:\d+)?(\/|$))/, '//198.51.100.7')
    const { body, status } = await create({ name: 'x', type, settings: { url: outside, ...others } })
    expect(status, body.error).toBe(201)
    const moved = await change(body.id, { settings: { url, ...others } })
    expect([moved.status, moved.body.error]).toEqual([400, expect.stringMatching(/^settings\.url .*[^.]\.$/)])
    expect(known(body.id)?.settings).toMatchObject({ url: outside })
  })

  it('is a change without fields, with an invalid field, or of the type', async () => {
    const { body } = await create(pager)
    for (const [asked, sentence] of [
      [{}, 'The body must contain at least one field.'],
      [{ type: 'slack' }, 'type is not a known field.'],
      [{ settings: { routing_key: 'x' } }, 'settings.routing_key must be 32 letters and digits.'],
      [{ quiet_hours: { from: '1:00', to: '02:00', time_zone: 'UTC' } }, 'quiet_hours.from must be a time of day'],
    ] as const) {
      const answer = await change(body.id, asked)
      expect([answer.status, answer.body.error]).toEqual([400, expect.stringContaining(sentence)])
    }
    expect(await audited(body.id)).toHaveLength(1)
  })

  // Each alert is matched against every channel, so without a limit one operator key could stall all alerts.
  it('is the creation of a channel beyond the limit of 100, also of two concurrent ones', async () => {
    await using full = await openTestService()
    const post = () => full.call<Created>('POST', '/api/alert-channels', { body: pager })
    for (let round = 0; round < 11; round++) await Promise.all(Array.from({ length: 9 }, post))
    const answers = await Promise.all([post(), post()])
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 400])
    const refusal = answers.find(({ status }) => status === 400)!
    expect(refusal.body.error).toBe('There are 100 channels, the maximum: delete one first.')
  })
})
