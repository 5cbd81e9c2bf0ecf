import type { ChannelView, MailChoice, MessageView } from '@wardline/contract'
import type { SMTPServerOptions } from 'smtp-server'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { type IdentityProvider, startIdentityProvider } from '../../../../../test-servers/identity-provider.ts'
import { migrate } from '../../db/migrate.ts'
import { failure, openMailServer } from '../../testing/mail-server.ts'
import { accounts, as, openServiceWith, publicUrl, setRoles, signIn } from '../../testing/people.ts'
import { openTestDatabase, openTestService, type TestService, type TestSession } from '../../testing/service.ts'
import { forgetOldAlerts } from './alerts.ts'

const minute = 60_000
const hour = 60 * minute

let provider: IdentityProvider
let server: Awaited<ReturnType<typeof openMailServer>>
let service: TestService
let ada: TestSession
beforeEach(async () => {
  provider = await startIdentityProvider({ publicUrl, accounts })
  server = await openMailServer()
  service = await openServiceWith(provider, {
    SMTP_URL: `smtp://127.0.0.1:${server.port}`,
    ALERT_EMAIL_FROM: 'wardline@example.com',
    ALERT_EMAIL_TO: 'team@example.com',
  })
  await changeChannel({ personal_mail: true, min_severity: 'breach', daily_check: false })
  ada = await signIn(service, 'ada')
})
afterEach(async () => {
  await service[Symbol.asyncDispose]()
  await server.close()
  await provider[Symbol.asyncDispose]()
})

const changeChannel = async (body: object) =>
  expect((await service.call('PATCH', '/api/alert-channels/env-email', { body })).status).toBe(200)
const choose = async (body: object, session = ada) =>
  (await service.call<MailChoice & { error: string }>('PUT', '/api/mail-choice', { ...as(session), body })).body
const view = async (session = ada) => (await service.call<MailChoice>('GET', '/api/mail-choice', as(session))).body
const setPeople = (columns: object) => service.deps.database.db.updateTable('people').set(columns).execute()
const sent = () => server.mails.filter(({ to }) => !to.includes('team@example.com'))
const log = async () =>
  (await service.call<{ messages: MessageView[] }>('GET', '/api/alert-messages')).body.messages.filter(
    ({ person_id }) => person_id !== null,
  )

async function report(instance_id = 'a', fields = {}): Promise<string> {
  const body = { severity: 'critical', source: 'x', event_type: 'policy_violation', description: 'Reads', instance_id }
  return (await service.call<{ id: string }>('POST', '/api/events', { body: { ...body, ...fields } })).body.id
}
async function assign(id: string, assignee: string | null = 'ada@example.com', caller: object = {}) {
  expect((await service.call('PATCH', `/api/alerts/${id}`, { ...caller, body: { assignee } })).status).toBe(200)
}
async function tag(id: string, tags: string[]) {
  await service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id } })
  expect((await service.call('PUT', `/api/instances/${id}/tags`, { body: { tags } })).status).toBe(200)
}

/** Plans and sends what is due after a time. */
async function pass(ms = 11_000): Promise<void> {
  await service.services.dispatcher.run()
  service.clock.advance(ms)
  for (let turn = 0; turn < 3; turn++) {
    await service.services.dispatcher.run()
    await service.services.dispatcher.whenIdle()
  }
}

it('an alert is mailed to whom it was assigned, with why they get it and where to switch it off', async () => {
  expect(await choose({ assigned: true, tags: [] })).toEqual({
    assigned: true,
    tags: [],
    address: 'ada@example.com',
    unavailable: null,
  })
  const id = await report()
  await assign(id)
  await pass(5_000)
  expect(sent()).toEqual([])
  await pass()
  const [mail, ...others] = sent()
  expect(others).toEqual([])
  expect(mail).toMatchObject({ from: 'wardline@example.com', to: ['ada@example.com'] })
  const text = mail!.text.replaceAll('=\r\n', '').replaceAll('=3D', '=')
  expect(text).toContain('You get this mail because you chose alerts that are assigned to you.')
  expect(text).toContain(`Change or switch it off at ${publicUrl}/account.`)
  expect(text).toContain(`${publicUrl}/alerts?alert=${id}`)
  expect(await log()).toMatchObject([{ channel_id: 'env-email', state: 'delivered', attempts: 1, last_answer: null }])
  await pass(hour)
  expect(sent()).toHaveLength(1)
})

it('alerts on agents with a chosen tag are mailed together, unless silenced or info', async () => {
  await tag('a', ['env:prod'])
  await tag('b', ['env:test'])
  await choose({ assigned: false, tags: ['env:prod', 'other'] })
  await report('a')
  await report('a', { event_type: 'other_violation', severity: 'warning' })
  await report('a', { event_type: 'quiet', severity: 'info' })
  await report('b')
  const match = { types: ['silent'] }
  const ends_at = new Date(service.clock.now() + hour).toISOString()
  expect((await service.call('POST', '/api/silences', { body: { match, reason: 'x', ends_at } })).status).toBe(201)
  await report('a', { event_type: 'silent' })
  await assign(await report('b'))
  await pass()
  expect(sent()).toHaveLength(1)
  expect(sent()[0]!.text).toContain('2 alerts for you')
  expect(sent()[0]!.text.replaceAll('=\r\n', '')).toContain('on an agent with the tag env:prod.')
})

it('is not sent for an alert that was taken back, resolved, or assigned by the person themselves', async () => {
  await choose({ assigned: true, tags: [] })
  const back = await report()
  await assign(back)
  await assign(back, null)
  const resolved = await report()
  await assign(resolved)
  await service.call('PATCH', `/api/alerts/${resolved}`, { body: { status: 'resolved' } })
  await assign(await report(), 'me', as(ada))
  await pass()
  expect(sent()).toEqual([])
})

it('is limited per hour; what is held back follows in one mail that says so', async () => {
  await choose({ assigned: true, tags: [] })
  for (let mail = 0; mail < 15; mail++) {
    await assign(await report())
    await pass()
  }
  expect(sent()).toHaveLength(12)
  await pass(hour)
  expect(sent()).toHaveLength(13)
  expect(sent()[12]!.text).toContain('3 alerts for you')
  expect(sent()[12]!.text.replaceAll('=\r\n', '')).toContain(
    'Held back until now, because a person gets at most 12 mails',
  )
})

it('a person limited to a team gets mail of its agents only', async () => {
  await tag('a', ['team:a', 'env:prod'])
  await tag('b', ['team:b', 'env:prod'])
  const mappings = [{ group: 'platform', role: 'operator', tags: ['team:a'] }]
  await setRoles(service, mappings)
  await choose({ assigned: true, tags: ['env:prod'] })
  await report('b')
  await assign(await report('b'))
  await report('none')
  await pass()
  expect(sent()).toEqual([])
  await report('a')
  await pass()
  expect(sent()).toHaveLength(1)
})

it('a mail that waits is not sent once an agent of it has left the team', async () => {
  await tag('a', ['team:a'])
  const mappings = [{ group: 'platform', role: 'operator', tags: ['team:a'] }]
  await setRoles(service, mappings)
  await choose({ assigned: true, tags: [] })
  await pass()
  await server.close()
  await assign(await report())
  await pass()
  server = await openMailServer({}, server.port)
  await tag('a', ['team:b'])
  await pass(10 * minute)
  expect(sent()).toEqual([])
  expect(await log()).toMatchObject([{ state: 'dead', last_error: expect.stringContaining('not of these agents') }])
})

const losses: [string, () => Promise<unknown>][] = [
  ['whose role ended', () => setPeople({ role: null })],
  ['whose group has no role any more', () => setRoles(service, [])],
  ['who was removed', () => service.deps.database.db.deleteFrom('people').execute()],
  ['of another provider', () => setPeople({ issuer: 'http://other.test' })],
  ['whose address is not verified any more', () => setPeople({ mail_address: null })],
  [
    'of whom the provider said nothing for a week',
    () => setPeople({ evaluated_at: service.clock.now() - 8 * 24 * hour }),
  ],
  [
    'whose sessions an admin ended',
    async () => {
      const { body } = await service.call<{ people: { id: string }[] }>('GET', '/api/people')
      await service.call('DELETE', `/api/people/${body.people[0]!.id}/sessions`)
    },
  ],
  ['after no channel sends mail to people', () => changeChannel({ personal_mail: false })],
]
it.each(losses)('a person %s gets no mail, nor one that is written already', async (_, lose) => {
  await choose({ assigned: true, tags: [] })
  const [first, second] = [await report(), await report()]
  await pass()
  await server.close()
  await assign(first)
  await pass()
  expect(await log()).toMatchObject([{ state: 'pending', attempts: 1 }])
  server = await openMailServer({}, server.port)
  await assign(second)
  await lose()
  await pass(10 * minute)
  await pass(10 * minute)
  expect(sent()).toEqual([])
  expect((await log()).every(({ state }) => state === 'dead')).toBe(true)
})

it('is only for verified addresses and people, and the page says why', async () => {
  const said = async () => (await view()).unavailable
  await setPeople({ mail_address: null })
  expect(await said()).toContain('email_verified')
  await setPeople({ email: null })
  expect(await said()).toContain('claim email)')
  const { status } = await service.call('PUT', '/api/mail-choice', { body: { assigned: true, tags: [] } })
  expect(status).toBe(403)
  expect((await service.call<MailChoice>('GET', '/api/mail-choice')).body.unavailable).toContain('Only people')
  await changeChannel({ personal_mail: false })
  await setPeople({ mail_address: 'ada@example.com' })
  expect(await said()).toContain('No mail channel')
})

// An address that bounces must not pause the channel of others, and the log of deliveries is read by others.
it('a refused address is retried for some hours, does not fail the channel, and is in no log', async () => {
  const address = 'nobody-ada@example.com'
  await choose({ assigned: true, tags: [] })
  await setPeople({ mail_address: address })
  for (let alert = 0; alert < 6; alert++) {
    await assign(await report())
    await pass()
  }
  for (let retry = 0; retry < 6; retry++) await pass(3 * hour)
  const messages = await log()
  expect(messages.every(({ state, last_status }) => state === 'dead' && last_status === 550)).toBe(true)
  expect(messages[0]!.attempts).toBe(5)
  const channel = (await service.call<ChannelView>('GET', '/api/alert-channels/env-email')).body
  expect(channel).toMatchObject({ state: 'ok', dead: 0, paused_until: null, last_error: null })
  const shown = JSON.stringify([messages, (await service.call('GET', '/api/audit?limit=1000')).body, service.logged])
  expect(shown).not.toContain(address)
})

// Otherwise a channel that only sends mail to people would never be reported as failing.
it('a server that refuses its sender fails the channel', async () => {
  await choose({ assigned: true, tags: [] })
  await pass()
  await server.close()
  const onMailFrom: SMTPServerOptions['onMailFrom'] = (_address, _session, done) => done(failure(530, 'Log in first'))
  server = await openMailServer({ onMailFrom }, server.port)
  await assign(await report())
  await pass()
  const channel = (await service.call<ChannelView>('GET', '/api/alert-channels/env-email')).body
  expect(channel.last_error).toBe('The mail server answered 530 to MAIL FROM.')
})

it('an alert that expires is not mailed any more', async () => {
  await changeChannel({ personal_mail: false })
  await choose({ assigned: true, tags: [] })
  await assign(await report())
  expect(await service.rows('select * from alert_notices')).toHaveLength(1)
  service.clock.advance(400 * 24 * hour)
  await forgetOldAlerts(service.deps)
  expect(await service.rows('select * from alert_notices')).toEqual([])
})

it('alerts of before the upgrade are not looked through', async () => {
  await using opened = await openTestDatabase()
  await migrate(opened.database, 1, 77)
  await opened.execute(`update counters set value = 5 where name = 'alert_seq'`)
  await opened.execute(`insert into people
    (id, issuer, subject, name, email, role, groups, first_seen_at, signed_in_at, evaluated_at)
    values ('person-1', 'i', 's', 'Ada', 'ada@example.com', 'operator', '[]', 1, 1, 1)`)
  await migrate(opened.database, 2)
  expect(await opened.rows(`select value from counters where name = 'mailed_seq'`)).toEqual([{ value: 5 }])
  expect(await opened.rows('select mail_address, ended_at from people')).toEqual([
    { mail_address: null, ended_at: null },
  ])
})

it('two processes send one mail', async () => {
  await choose({ assigned: true, tags: [] })
  await using other = await openTestService({
    env: {
      ...provider.env(),
      SMTP_URL: `smtp://127.0.0.1:${server.port}`,
      ALERT_EMAIL_FROM: 'w@example.com',
      ALERT_EMAIL_TO: 'team@example.com',
    },
    dataDir: service.deps.config.dataDir,
    clock: service.clock,
  })
  await assign(await report())
  service.clock.advance(11_000)
  await Promise.all([service, other].map(({ services }) => services.dispatcher.run()))
  await Promise.all([service, other].map(({ services }) => services.dispatcher.whenIdle()))
  await pass()
  expect(sent()).toHaveLength(1)
})

it('only channels of type email send mail to people', async () => {
  const settings = { url: 'https://hooks.example.com/x' }
  const body = { name: 'x', type: 'webhook', settings, personal_mail: true }
  const { status, body: answer } = await service.call<{ error: string }>('POST', '/api/alert-channels', { body })
  expect([status, answer.error]).toEqual([400, 'personal_mail is only for channels of type email.'])
})
