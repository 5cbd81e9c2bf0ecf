import { createServer, type IncomingHttpHeaders, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text as textOf } from 'node:stream/consumers'
import { Webhook } from 'standardwebhooks'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { runCommand } from './command.ts'
import { createKey, createKeyDecoy, newInstance, postEvent, unique } from './fleet.ts'
import { isExternal, needsOwnProcess, newDataDir, type Service, startService, until } from './service.ts'

/** A home without profiles and without a data folder. */
const home = newDataDir()

if (isExternal) process.stdout.write(`Tests of the alert commands are left out: ${needsOwnProcess}\n`)

let service: Service
const servers: Server[] = []
beforeAll(async () => {
  if (!isExternal) service = await startService({ env: { WARDLINE_ALERT_ALLOW_CIDRS: '127.0.0.0/8' } })
})
afterAll(async () => {
  await service?.stop()
  for (const server of servers) {
    server.close()
    server.closeAllConnections()
  }
})

/** A unique event type, so that no channel receives alerts of another test. */
afterEach(async () => {
  if (isExternal) return
  const { body } = await service.call<{ channels: { id: string }[] }>('GET', '/api/alert-channels')
  for (const { id } of body.channels) await service.call('DELETE', `/api/alert-channels/${id}`)
})

interface Run {
  exit: number
  stdout: string
  stderr: string
  /** Parsed from standard output. */
  json<Body>(): Body
}

/** Runs a command until it exits, by default with an operator's key. */
async function run(args: string[], { input = '', key = service.key } = {}): Promise<Run> {
  const env = { HOME: home, WARDLINE_URL: service.baseUrl, WARDLINE_KEY: key }
  const { code, stdout, stderr } = await runCommand(args, env, home, input)
  return { exit: code, stdout, stderr, json: () => JSON.parse(stdout) }
}

/** Like `run`, and asserts success. */
async function done(args: string[], input?: string): Promise<Run> {
  const ended = await run(args, input === undefined ? {} : { input })
  expect(ended.exit, `wardline ${args.join(' ')}\n${ended.stderr}`).toBe(0)
  return ended
}

interface Received {
  headers: IncomingHttpHeaders & Record<string, string>
  body: string
}

interface Receiver {
  url: string
  received: Received[]
  /** Response to the next requests. */
  answers(status: number, body?: string): void
}

async function startReceiver(): Promise<Receiver> {
  const received: Received[] = []
  let answer = { status: 200, body: '{"id":"kept"}' }
  const server = createServer(async (request, response) => {
    received.push({ headers: request.headers as Received['headers'], body: await textOf(request) })
    response.writeHead(answer.status).end(answer.body)
  })
  const answers: Receiver['answers'] = (status, body = '') => {
    answer = { status, body }
  }
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hidden-path`
  return { url, received, answers }
}

interface Added {
  id: string
  secret: string
}

/** Creates a channel and its receiver. Without the daily check, which would send messages in between. */
async function addChannel(type: string, ...more: string[]): Promise<Receiver & Added> {
  const receiver = await startReceiver()
  const args = ['channels', 'add', type, '--name', unique('channel'), '--settings-file', '-', '--no-daily-check']
  const added = await done([...args, ...more, '--json'], JSON.stringify({ url: receiver.url }))
  return { ...receiver, ...added.json<Added>() }
}

/** Creates a message that has failed finally: the channel was disabled after the first attempt. */
async function giveUpOne(channel: Receiver & Added): Promise<void> {
  const before = channel.received.length
  channel.answers(500)
  const event = { severity: 'critical', source: 'e2e', event_type: 'policy_violation', description: unique('given up') }
  await service.call('POST', '/api/events', { body: event })
  interface Log {
    messages: { attempts: number }[]
  }
  const log = async () => (await done(['channels', 'log', channel.id, '--state', 'pending', '--json'])).json<Log>()
  await until('the first try', log, ({ messages }) => messages.some(({ attempts }) => attempts === 1))
  expect(channel.received.length).toBe(before + 1)
  await done(['channels', 'change', channel.id, '--disable'])
  await done(['channels', 'change', channel.id, '--enable'])
}

/** Waits for the message about an event. */
const messageOf = ({ received }: Receiver, description: string) =>
  until(
    'the message',
    () => received.find(({ body }) => body.includes(description)),
    (found) => found !== undefined,
  ) as Promise<Received>

interface ShownAlert {
  status: string
  verdict: string | null
  assignee_name: string | null
  comments: { id: string }[]
  deliveries: { channel_id: string; outcome: string; state: string | null; last_answer: string | null }[]
}

const show = async (id: string) => (await done(['alerts', 'show', id, '--json'])).json<ShownAlert>()

/** Waits for the outcome of an alert at a channel. */
const deliveryTo = async (alertId: string, channelId: string) => {
  const found = async () => (await show(alertId)).deliveries.find(({ channel_id }) => channel_id === channelId)
  return (await until('a decision', found, (delivery) => delivery !== undefined))!
}

describe.skipIf(isExternal)('wardline channels', () => {
  test('adds a webhook, prints only its secret to standard output, and tests it with the real response', async () => {
    const receiver = await startReceiver()
    const name = unique('webhook')
    const added = await done(
      [
        'channels',
        'add',
        'webhook',
        '--name',
        name,
        '--settings-file',
        '-',
        '--no-daily-check',
        '--min-severity',
        'critical',
      ],
      JSON.stringify({ url: receiver.url }),
    )
    expect(added.stdout).toMatch(/^whsec_[\w+/]{43}=\n$/)
    const id = /channels test (\S+)/.exec(added.stderr)?.[1] ?? ''

    const untried = await done(['channels', 'list'])
    expect(untried.stdout).toMatch(new RegExp(`^${id}  not tried yet +webhook`, 'm'))
    expect(untried.stderr).toMatch(/Send a test: wardline channels test \S+/)
    receiver.answers(202, 'kept \u001b[2J\u202ewell')
    const tested = await done(['channels', 'test', id])
    expect(tested.stdout).toMatch(/^Delivered after \d+ ms: 202 kept .+well\n$/)
    expect(tested.stdout.trimEnd()).not.toMatch(/\p{Cc}|\u202e/u)
    const { headers, body } = receiver.received[0]!
    expect(new Webhook(added.stdout.trim()).verify(body, headers)).toMatchObject({ type: 'channel.test' })

    const list = await done(['channels', 'list'])
    expect(list.stdout).toMatch(new RegExp(`^${id}  ok +webhook +${name}  127\\.0\\.0\\.1(:\\d+)?  from critical`, 'm'))
    const shown = await done(['channels', 'show', id])
    expect(shown.stdout).toMatch(/^Takes +critical and above, at most 20 messages a minute$/m)
    // A viewer must not learn the destination or its secret.
    for (const { stdout } of [list, shown, await done(['channels', 'list', '--json'])]) {
      expect(stdout).not.toContain('hidden-path')
      expect(stdout).not.toContain(added.stdout.trim())
    }
    await done(['channels', 'delete', id])
    expect((await run(['channels', 'show', id])).exit).toBe(2)
  })

  test('exits with code 1 if the receiver refused the test', async () => {
    const channel = await addChannel('webhook')
    channel.answers(500, 'out of order')
    const failed = await run(['channels', 'test', channel.id, '--json'])
    expect(failed.exit).toBe(1)
    expect(failed.json()).toMatchObject({ ok: false, status: 500, answer: 'out of order' })
    expect(JSON.parse(failed.stderr)).toEqual({ code: 'not_delivered', error: expect.stringContaining('answered 500') })
    const log = await done(['channels', 'log', channel.id, '--state', 'dead'])
    expect(log.stdout).toMatch(/ test +Test message of Wardline +dead, 1 attempt +500 The receiver answered 500\.\n$/)
    // An old test message is never retried.
    expect((await done(['channels', 'replay', channel.id])).stdout).toBe('0 messages are sent again.\n')
  })

  test('retries a failed message on request, under the same id', async () => {
    const channel = await addChannel('webhook')
    await giveUpOne(channel)
    const log = await done(['channels', 'log', channel.id, '--state', 'dead'])
    expect(log.stdout).toMatch(/ alert +.+ +dead, 1 attempt +500 The channel was disabled\.\n$/)
    channel.answers(200)
    expect((await done(['channels', 'replay', channel.id])).stdout).toBe('1 message is sent again.\n')
    await until(
      'the second try',
      () => channel.received.length,
      (count) => count === 2,
    )
    // A receiver that accepted it before recognizes the retry by its id.
    const [first, second] = channel.received
    expect(second!.headers['webhook-id']).toBe(first!.headers['webhook-id'])
    interface Log {
      messages: { state: string }[]
    }
    const states = async () => (await done(['channels', 'log', channel.id, '--json'])).json<Log>().messages
    await until('the delivery', states, (messages) => messages.every(({ state }) => state === 'delivered'))
  })

  test('rotates a secret: during the overlap both sign, without an overlap only the new one', async () => {
    const channel = await addChannel('webhook')
    const verified = async (...secrets: string[]) => {
      await done(['channels', 'test', channel.id])
      const { headers, body } = channel.received.at(-1)!
      return secrets.map((secret) => {
        try {
          new Webhook(secret).verify(body, headers)
          return true
        } catch {
          return false
        }
      })
    }
    const second = (await done(['channels', 'rotate-secret', channel.id, '--overlap', '1h'])).stdout.trim()
    expect(await verified(channel.secret, second)).toEqual([true, true])
    const third = (await done(['channels', 'rotate-secret', channel.id, '--overlap', '0s', '--json'])).json<Added>()
    expect(await verified(channel.secret, second, third.secret)).toEqual([false, false, true])
  })

  test('changes the given settings, and refuses a change without settings', async () => {
    const channel = await addChannel('webhook')
    const hours = ['--quiet', '22:00-07:00', '--time-zone', 'Europe/Berlin']
    await done(['channels', 'change', channel.id, ...hours, '--no-resolved', '--disable', '--max-per-minute', '5'])
    const view = async () => (await done(['channels', 'show', channel.id, '--json'])).json()
    expect(await view()).toMatchObject({
      state: 'disabled',
      send_resolved: false,
      max_per_minute: 5,
      min_severity: 'info',
      quiet_hours: { from: '22:00', to: '07:00', time_zone: 'Europe/Berlin' },
    })
    expect((await done(['channels', 'show', channel.id])).stdout).toMatch(
      /^Quiet hours +22:00 to 07:00, Europe\/Berlin;/m,
    )
    const moved = await startReceiver()
    const settings = ['--settings-file', '-', '--name', 'moved', '--no-quiet', '--enable']
    await done(['channels', 'change', channel.id, ...settings], JSON.stringify({ url: moved.url }))
    expect(await view()).toMatchObject({ name: 'moved', state: 'ok', quiet_hours: null, send_resolved: false })
    await done(['channels', 'test', channel.id])
    // Changing the URL of a webhook keeps its secret.
    expect(new Webhook(channel.secret).verify(moved.received[0]!.body, moved.received[0]!.headers)).toBeDefined()
    expect((await run(['channels', 'change', channel.id])).exit).toBe(64)
  })

  // Scripts log what a command prints, so no part of a secret may be printed, even if it is invalid.
  test('refuses invalid settings without printing them', async () => {
    const args = ['channels', 'add', 'slack', '--name', 'x', '--settings-file', '-']
    const cases: [input: string, exit: number][] = [
      ['{"url":"https://hooks.example/SECRET"', 78],
      ['["https://hooks.example/SECRET"]', 78],
      ['{"url":"SECRET"}', 2],
      ['{"url":"https://hooks.example/SECRET","token":"SECRET"}', 2],
      ['{"url":"https://192.168.7.7/SECRET"}', 2],
    ]
    for (const [input, exit] of cases) {
      const refused = await run(args, { input })
      expect(refused.exit, refused.stderr).toBe(exit)
      expect(refused.stdout + refused.stderr).not.toContain('SECRET')
      expect(refused.stderr).toMatch(/settings/)
    }
    const without = await run(args.slice(0, -2))
    expect(without.exit).toBe(64)
    expect(without.stderr).toContain('--settings-file')
  })

  test('allows viewers to read only', async () => {
    const key = await createKey(service, { scope: 'viewer' })
    expect((await run(['channels', 'list'], { key })).exit).toBe(0)
    const input = '{"url":"https://hooks.example/x"}'
    const args = ['channels', 'add', 'slack', '--name', 'x', '--settings-file', '-']
    expect((await run(args, { key, input })).exit).toBe(3)
    expect((await run(['silences', 'add', '--all', '--for', '1h', '--reason', 'x'], { key })).exit).toBe(3)
  })
})

describe.skipIf(isExternal)('wardline alerts', () => {
  test('shows an alert with its deliveries, acknowledges and resolves it', async () => {
    const channel = await addChannel('webhook')
    const instance = await newInstance(service, 'alerted')
    const description = unique('needle')
    const id = await postEvent(service, {
      severity: 'critical',
      instance_id: instance,
      event_type: 'policy_violation',
      description: `${description} \u001b[2Jx`,
    })
    channel.answers(200, 'taken')
    await messageOf(channel, description)
    const list = await done(['alerts', '--instance', instance, '--status', 'open'])
    expect(list.stdout).toMatch(
      new RegExp(
        `^\\S+Z  critical  open          ${id}  ${instance}: a policy violation, reported by another source  ${description} +\\[2Jx\n$`,
      ),
    )
    await until(
      'the answer',
      () => deliveryTo(id, channel.id),
      ({ state }) => state === 'delivered',
    )
    const shown = await done(['alerts', 'show', id])
    expect(shown.stdout).toMatch(/^Status +open$/m)
    expect(shown.stdout).toMatch(/^channel-\S+ +sent +delivered \S+Z, 1 attempt +200 taken$/m)
    expect(shown.stdout.replaceAll('\n', '')).not.toMatch(/\p{Cc}/u)

    await done(['alerts', 'ack', id, '--assignee', 'me', '--comment', 'Looking into it'])
    expect(await show(id)).toMatchObject({
      status: 'acknowledged',
      assignee_name: 'WARDLINE_API_KEY',
      comments: [{ text: 'Looking into it' }],
    })
    await done(['alerts', 'comment', id, 'It was the\u001b[2J nightly job'])
    expect((await done(['alerts', 'show', id])).stdout).toMatch(/^\S+ +\S+Z +\S.* +It was the +\[2J nightly job$/m)
    await done(['alerts', 'delete-comment', (await show(id)).comments[1]!.id])
    expect((await done(['alerts', 'show', id])).stdout).toMatch(/ deleted by \S/)
    await done(['alerts', 'resolve', id, '--false-positive'])
    expect(await show(id)).toMatchObject({
      status: 'resolved',
      verdict: 'false_positive',
      assignee_name: 'WARDLINE_API_KEY',
    })
    expect((await done(['alerts', 'show', id])).stdout).toMatch(/^Status +resolved, false positive since \S+Z$/m)
    await done(['alerts', 'reopen', id])
    await done(['alerts', 'assign', id, 'none'])
    expect((await done(['alerts', '--instance', instance, '--assigned', 'none'])).stdout).toContain(id)
    expect((await run(['alerts', 'assign', id, 'nobody-of-this-name'])).exit).not.toBe(0)
    expect(await show(id)).toMatchObject({ status: 'open', verdict: null })
    expect((await run(['alerts', 'resolve', id, '--true-positive', '--false-positive'])).exit).toBe(64)
  })

  test('lists and acknowledges alerts without a channel, and says that nobody is notified', async () => {
    const description = unique('unheard')
    const id = await postEvent(service, { severity: 'warning', event_type: 'policy_violation', description })
    const filter = ['alerts', 'list', '--type', 'policy_violation']
    const listed = await done(filter)
    expect(listed.stdout).toContain(id)
    expect(listed.stderr).toContain(
      'Nobody is notified: no alert channel is configured. Add one: wardline channels add',
    )
    expect((await done(['alerts', 'show', id])).stdout).toContain('Nobody was notified')
    await done(['alerts', 'ack', id])
    expect((await done([...filter, '--status', 'acknowledged', '--json'])).stdout).toContain(description)
    const none = await done(['alerts', 'list', '--type', unique('never').replaceAll('-', '_')])
    expect(none.stderr).toMatch(/^No alert matches\.\nNobody is notified/)
  })

  test('changes all alerts of a problem, and lists all pages', async () => {
    await addChannel('webhook')
    const instance = await newInstance(service, 'grouped')
    const ids: string[] = []
    for (let index = 0; index < 5; index++) {
      ids.push(await postEvent(service, { severity: 'warning', instance_id: instance, event_type: 'egress_blocked' }))
    }
    const acknowledged = await done(['alerts', 'ack', ids[0]!, '--group'])
    expect(acknowledged.stdout).toBe('5 alerts are acknowledged.\n')
    const first = await done(['alerts', 'list', '--instance', instance, '--limit', '3'])
    expect(first.stdout.match(/acknowledged/g)).toHaveLength(3)
    const cursor = /--before (\d+)/.exec(first.stderr)?.[1] ?? ''
    const rest = await done(['alerts', 'list', '--instance', instance, '--before', cursor, '--json'])
    expect(rest.json()).toMatchObject({ alerts: [{ id: ids[1] }, { id: ids[0] }], next: null })
    const filters = ['--severity', 'warning', '--type', 'egress_blocked', '--status', 'resolved']
    expect((await done(['alerts', 'resolve', ids[0]!, '--group', '--true-positive'])).stdout).toContain('5 alerts')
    const resolved = (await done(['alerts', 'list', ...filters, '--instance', instance, '--json'])).json()
    expect(resolved).toMatchObject({ alerts: Array(5).fill({ verdict: 'true_positive' }) })
    expect((await run(['alerts', 'show', '00000000-0000-4000-8000-000000000000'])).exit).toBe(2)
  })
})

describe.skipIf(isExternal)('wardline routes and silences', () => {
  test('suppress a silenced alert for people, not for machines', async () => {
    const people = await addChannel('ntfy')
    const machine = await addChannel('webhook')
    const instance = await newInstance(service, 'silenced')
    const args = ['silences', 'add', '--instance', `${instance.slice(0, -3)}*`, '--for', '2h', '--reason', 'It moves']
    const silence = (await done([...args, '--json'])).json<{ id: string }>()
    expect((await done(['silences', 'list'])).stdout).toMatch(
      new RegExp(`^${silence.id}  until \\S+Z  instance ${instance.slice(0, -3)}\\*  It moves$`, 'm'),
    )
    const report = () =>
      postEvent(service, { severity: 'critical', instance_id: instance, description: unique('quiet') })
    const silenced = await report()
    expect(await deliveryTo(silenced, people.id)).toMatchObject({ outcome: 'silenced' })
    expect(await deliveryTo(silenced, machine.id)).toMatchObject({ outcome: 'sent' })

    await done(['silences', 'end', silence.id])
    const thirdReport = await report()
    expect(await deliveryTo(thirdReport, people.id)).toMatchObject({ outcome: 'sent' })
    expect((await run(['silences', 'end', silence.id])).exit).toBe(2)
  })

  // Without a condition, a silence would hide decoy hits; without an end, it would hide alerts forever.
  test('refuse a silence of everything or without an end, unless stated explicitly', async () => {
    const reason = ['--reason', 'x']
    for (const args of [
      ['--for', '1h'],
      ['--all'],
      ['--for', '1h', '--until', '2030-01-01T00:00Z', '--all'],
      ['--all', '--type', 'x', '--for', '1h'],
    ])
      expect((await run(['silences', 'add', ...args, ...reason])).exit, args.join(' ')).toBe(64)
    const { id } = (await done(['silences', 'add', '--all', '--for', '1h', ...reason, '--json'])).json<Added>()
    expect((await done(['silences', 'list'])).stdout).toMatch(new RegExp(`^${id} .* every alert  x$`, 'm'))
    await done(['silences', 'end', id])
    expect((await run(['silences', 'add', '--all', '--until', '2020-01-01T00:00Z', ...reason])).exit).toBe(2)
  })

  test('send a channel only what its route matches', async () => {
    const channel = await addChannel('webhook')
    const other = await addChannel('webhook')
    const instance = await newInstance(service, 'routed')
    const conditions = ['--severity', 'critical', '--severity', 'breach', '--type', 'policy_*', '--instance', instance]
    const name = unique('route')
    const { id } = (
      await done(['routes', 'add', '--name', name, '--channel', channel.id, ...conditions, '--json'])
    ).json<Added>()
    const routes = (await done(['routes', 'list'])).stdout
    expect(routes).toContain(
      `${id}  ${name}  severity critical, breach; type policy_*; instance ${instance}  → ${channel.id}`,
    )
    const preview = ['routes', 'preview', '--severity', 'critical', '--instance', instance]
    const previewed = (await done([...preview, 'policy_violation'])).stdout
    expect(previewed).toMatch(new RegExp(`^${channel.id}  webhook  .*  receives it +by ${name}$`, 'm'))
    expect((await done([...preview, 'egress_blocked'])).stdout).toMatch(
      new RegExp(`^${channel.id}  webhook  .*  no route to it matches`, 'm'),
    )
    expect((await run([...preview.slice(0, 2), 'policy_violation'])).exit).toBe(64)
    const report = (event_type: string) =>
      postEvent(service, { severity: 'critical', instance_id: instance, event_type, description: unique('routed') })
    const unwanted = await report('egress_blocked')
    const wanted = await report('policy_violation')
    expect(await deliveryTo(wanted, channel.id)).toMatchObject({ outcome: 'sent' })
    expect(await deliveryTo(unwanted, other.id)).toMatchObject({ outcome: 'sent' })
    expect((await show(unwanted)).deliveries.map(({ channel_id }) => channel_id)).not.toContain(channel.id)
    await done(['routes', 'delete', id])
    const unknown = await run(['routes', 'add', '--name', 'x', '--channel', id])
    expect(unknown.exit).toBe(2)
  })
})

describe.skipIf(isExternal)('a decoy that is touched', () => {
  test('reaches the receiver within seconds, and doctor reports that channels work', async () => {
    const channel = await addChannel('webhook')
    const instance = await newInstance(service, 'decoyed')
    const decoy = await createKeyDecoy(service, instance)
    await service.call('POST', '/api/honeypots/check/key', {
      body: { key: decoy.key, meta: { instance_id: instance } },
    })
    const { body, headers } = await messageOf(channel, instance)
    expect(new Webhook(channel.secret).verify(body, headers)).toMatchObject({
      type: 'alert.honeypot_triggered',
      data: { severity: 'breach', instance_id: instance },
    })
    interface Report {
      checks: { name: string; status: string; detail: string }[]
    }
    const check = async () =>
      (await done(['doctor', '--json'])).json<Report>().checks.find(({ name }) => name === 'channels')
    expect(await check()).toMatchObject({ status: 'ok' })
    await giveUpOne(channel)
    expect(await check()).toMatchObject({
      status: 'warn',
      detail: expect.stringContaining('1 message was not delivered'),
    })
    await done(['channels', 'delete', channel.id])
    expect(await check()).toMatchObject({ status: 'warn', detail: expect.stringContaining('are not sent') })
  })
})

describe.skipIf(isExternal)('an alert', () => {
  // The person on call copies these commands: one that fails costs minutes.
  test('suggests commands that work as printed, and names who suspended the agent', async () => {
    const channel = await addChannel('webhook')
    const instanceId = await newInstance(service)
    await service.call('POST', '/api/heartbeat', { body: { instance_id: instanceId, name: 'Night bot' } })
    const body = { instanceId, type: 'api_key', keyType: 'openai', label: unique('label') }
    const { key } = (await service.call<{ key: string }>('POST', '/api/honeypots', { body })).body
    await service.call('POST', '/api/honeypots/check/key', {
      body: { key, meta: { tool: 'shell-exec', instance_id: instanceId } },
    })
    interface Sent {
      data: { next: string[]; suspension: { by: string; reason: string } | null } & Record<string, unknown>
    }
    const read = ({ body }: Received) => JSON.parse(body) as Sent
    const hit = read(await messageOf(channel, body.label)).data
    expect(hit).toMatchObject({
      event_type: 'honeypot_triggered',
      instance_name: 'Night bot',
      tool: 'shell-exec',
      ip_address: '127.0.0.1',
      suspension: null,
    })
    const words = (command: string) => command.split(' ').slice(1)
    const [kill = '', ack = ''] = hit.next
    // No agent runs, so the kill stays unconfirmed.
    await done([...words(kill), '--no-wait'])
    expect((await done(words(ack))).stdout).toMatch(/^Alert .+ is acknowledged\.\n$/)

    const description = unique('after the kill')
    await postEvent(service, {
      severity: 'critical',
      source: 'e2e',
      event_type: 'tool_blocked',
      description,
      instance_id: instanceId,
    })
    const later = read(await messageOf(channel, description)).data
    expect(later.suspension).toMatchObject({ by: 'WARDLINE_API_KEY', reason: 'honeypot_triggered' })
    for (const command of later.next) await done(words(command))
    await done(['resume', '--no-wait', instanceId])
    const over = read(await messageOf(channel, 'instance_resumed')).data
    for (const command of over.next) await done(words(command))
  })
})
