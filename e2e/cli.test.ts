import { spawn } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener, request, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { runCommand, startCommand } from './command.ts'
import { allEvents, anEvent, beat, createKey, newInstance, postEvent, unique } from './fleet.ts'
import { isExternal, needsOwnProcess, newDataDir, type Service, startService, until } from './service.ts'
import type { BatchAnswer, ControlMessage, EventPage, EventRow, StatusView } from './shapes.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
if (isExternal)
  process.stdout.write(`Tests of the command line that restart a service are left out: ${needsOwnProcess}\n`)

/** A home without profiles, without coding agents and without a data folder. */
const home = newDataDir()

interface Run {
  stdout(): string
  stderr(): string
  /** Parsed from standard output. */
  json<Body>(): Body
  /** Parsed lines of standard output. */
  rows<Row = EventRow>(): Row[]
  /** Parsed lines of standard error. */
  notices(): Record<string, unknown>[]
  exited: Promise<number | null>
}

const parsedLines = (text: string) =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line))

const runOf = (stdout: () => string, stderr: () => string, exited: Promise<number | null>): Run => ({
  stdout,
  stderr,
  json: () => JSON.parse(stdout()),
  rows: () => parsedLines(stdout().slice(0, stdout().lastIndexOf('\n') + 1)),
  notices: () => parsedLines(stderr().slice(0, stderr().lastIndexOf('\n') + 1)),
  exited,
})

/** Starts a command in a process that is only for it. */
function started(args: string[], env: Record<string, string> = {}) {
  const { stdout, stderr, ended, kill } = startCommand(args, { HOME: home, ...env }, home)
  return {
    ...runOf(
      stdout,
      stderr,
      ended.then(({ code }) => code),
    ),
    kill,
  }
}

/** Runs a command. What it prints is there once it has exited. */
function wardline(args: string[], env: Record<string, string> = {}): Run {
  let [stdout, stderr] = ['', '']
  const exited = runCommand(args, { HOME: home, ...env }, home).then((result) => {
    ;({ stdout, stderr } = result)
    return result.code
  })
  return runOf(
    () => stdout,
    () => stderr,
    exited,
  )
}

/** Runs a command until it exits, and asserts success. */
async function done(args: string[], env: Record<string, string>): Promise<Run> {
  const run = wardline(args, env)
  expect(await run.exited, `wardline ${args.join(' ')}\n${run.stderr()}`).toBe(0)
  return run
}

let service: Service
const as = (key: string, url = service.baseUrl) => ({ WARDLINE_URL: url, WARDLINE_KEY: key })
const asAdmin = () => as(service.key)

beforeAll(async () => {
  service = await startService()
})
afterAll(() => service?.stop())

const servers: Server[] = []
afterAll(() => {
  for (const server of servers) {
    server.close()
    server.closeAllConnections()
  }
})

/** Starts an HTTP server that is not Wardline, or a proxy in front of it. */
async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener)
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** Returns a URL where nothing listens. */
async function deadUrl(): Promise<string> {
  const url = await serve(() => {})
  const server = servers.pop()!
  await new Promise((resolve) => server.close(resolve))
  return url
}

// With another port than 4747 every command said "No answer".
test('without settings a command uses the service that runs in its folder', async ({ skip }) => {
  if (isExternal) return skip(needsOwnProcess)
  const own = await startService({ withoutKey: true })
  const env = { WARDLINE_DATA_DIR: own.dataDir }
  const run = await done(['status'], env)
  expect(run.stderr()).toBe(`Service: ${own.baseUrl}, from ${join(own.dataDir, 'address')}\n`)
  expect((await done(['status', '--json'], env)).stderr()).toBe('')
  await own.stop()
  expect(existsSync(join(own.dataDir, 'address'))).toBe(false)
})

describe('status and instances', () => {
  // Loading `fetch` or the service takes longer than everything else in such a command.
  test('load neither fetch nor the service', async () => {
    const report =
      "process.on('exit', () => console.error(process.moduleLoadList.filter((name) => /undici|sqlite/.test(name))))"
    const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(report)}` }
    const run = started(['status'], { ...asAdmin(), ...env })
    expect(await run.exited).toBe(0)
    expect(run.stderr()).toBe('[]\n')
  })

  test('show the fleet, as text and as JSON of the service', async () => {
    const id = await newInstance(service, 'fleet')
    const text = await done(['status'], asAdmin())
    expect(text.stdout()).toMatch(/^Fleet {7}[\d,]+ agents?: \d+ active/)
    const { body } = await service.call<StatusView>('GET', '/api/status')
    const json = (await done(['status', '--json'], asAdmin())).json<StatusView>()
    expect(Object.keys(json).sort()).toEqual(Object.keys(body).sort())
    expect(json.instances.map((instance) => instance.id)).toContain(id)

    expect((await done(['instances'], asAdmin())).stdout()).toMatch(
      new RegExp(`^active +${id} +\\d+ s ago +Agent ${id}$`, 'm'),
    )
    expect((await done(['instances', '--json', '--status', 'active'], asAdmin())).json<StatusView>().instances).toEqual(
      expect.arrayContaining([expect.objectContaining({ id, status: 'active' })]),
    )
    expect((await done(['instances', id], asAdmin())).stdout()).toContain('Control         never suspended')
    await service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: `Agent ${id}`, tags: ['env:test'] } })
    const tagged = await done(['instances', 'tag', id, `watched,${id}`], asAdmin())
    expect(tagged.stdout()).toBe(`Tags of ${id}: env:test, ${id}, watched\n`)
    expect((await done(['instances', id], asAdmin())).stdout()).toContain(`env:test (by the agent), ${id}, watched`)
    expect((await done(['instances', '--tag', id], asAdmin())).stdout()).toMatch(
      new RegExp(`^active +${id} +\\d+ s ago +Agent ${id} +env:test ${id} watched *$`, 'm'),
    )
    expect((await done(['instances', 'tag', id], asAdmin())).stdout()).toBe(`Tags of ${id}: env:test\n`)
    expect((await done(['instances', id, '--json'], asAdmin())).json()).toMatchObject({ id, control: { version: 0 } })
    const history = (await done(['instances', 'history', id, '--json'], asAdmin())).json<{ heartbeats: number[] }>()
    expect(history).toMatchObject({ id, bucket_seconds: 300 })
    expect(history.heartbeats).toHaveLength(288)
  })

  test('note what people should know about an agent', async () => {
    const id = await newInstance(service, 'noted')
    const text = 'Settles payments until 6:00\ncall Ada first\u001b[2J'
    expect((await done(['instances', 'note', id, text], asAdmin())).stdout()).toBe(`The note on ${id} is set.\n`)
    const shown = (await done(['instances', id], asAdmin())).stdout()
    expect(shown).toMatch(/Settles payments until 6:00.*call Ada first/s)
    expect(shown).not.toContain('\u001b')
    const json = (await done(['instances', 'note', id, 'Other', '--json'], asAdmin())).json()
    expect(json).toMatchObject({ ok: true, id, note: { text: 'Other' } })
    expect((await done(['instances', 'note', id], asAdmin())).stdout()).toBe(`The note on ${id} is removed.\n`)
    expect((await done(['instances', id, '--json'], asAdmin())).json()).toMatchObject({ note: null })
    const absent = started(['instances', 'note', unique('absent'), 'x'], asAdmin())
    expect(await absent.exited).not.toBe(0)
    expect(absent.stderr()).toMatch(/No instance with id absent-/)
  })

  test('list the tool servers of agents, with versions and what runs', async () => {
    const id = await newInstance(service, 'server')
    const name = unique('server')
    const items = ['1.0.0', '2.0.0'].map((version) => ({
      ...{ kind: 'server', name, version, sha256: 'a'.repeat(64) },
      command: `npx \u202ex@${version}`,
    }))
    for (const [index, item] of items.entries()) {
      const body = { source: `client-${index}`, items: [item] }
      expect((await service.call('PUT', `/api/instances/${id}/config`, { body })).status).toBe(200)
    }
    const text = (await done(['instances', 'servers'], asAdmin())).stdout()
    expect(text).toMatch(/^SERVER +AGENTS +VERSION +RUNS +FIRST SEEN +LAST SEEN *$/m)
    for (const version of ['1.0.0', '2.0.0'])
      expect(text).toMatch(new RegExp(`^${name} +1 +${version.replaceAll('.', '\\.')} +npx `, 'm'))
    expect(text).not.toContain('\u202e')
    const { servers } = (await done(['instances', 'servers', '--json'], asAdmin())).json<{
      servers: { name: string }[]
    }>()
    expect(servers.filter((one) => one.name === name)).toHaveLength(1)
    expect((await done(['instances', 'list', '--server', name], asAdmin())).stdout()).toContain(id)
  })

  // An agent chooses its own name, which must not control what an operator's terminal shows.
  test('escape names for the terminal', async () => {
    const id = unique('hostile')
    const name = 'ok\u001b[2J\u009b31m\u202efleet'
    await service.call('POST', '/api/heartbeat', { body: { instance_id: id, name } })
    for (const args of [['instances'], ['instances', id], ['instances', '--json']]) {
      const run = await done(args, asAdmin())
      expect(run.stdout().replaceAll('\n', '')).not.toMatch(/\p{Cc}|\u202e/u)
      expect(run.stdout()).toContain('fleet')
    }
  })
})

describe('kill and resume', () => {
  interface Done {
    confirmed: boolean | null
    confirm_ms: number | null
  }

  /** Starts an agent that confirms every change. */
  async function listeningAgent(id: string): Promise<{ heard: string[]; close(): void }> {
    const stream = await service.openStream(`/api/instances/${id}/control`, { key: service.key })
    await stream.next(() => true)
    const heard: string[] = []
    const listen = async (): Promise<void> => {
      const { json } = await stream.next<ControlMessage>(() => true, 60_000)
      heard.push(`${json.action} ${json.reason ?? ''}`.trim())
      await service.call('POST', `/api/instances/${id}/ack`, { body: { version: json.version } })
      return listen()
    }
    // The agent ends with its stream.
    void listen().catch(() => {})
    return { heard, close: stream.close }
  }

  test('wait until the agent has confirmed, and say how long it took', async () => {
    const id = await newInstance(service)
    const agent = await listeningAgent(id)
    const killed = await done(['kill', id, '--reason', 'It mails twice'], asAdmin())
    expect(killed.stdout()).toMatch(
      new RegExp(`^${id} is suspended: It mails twice\nIts agent confirmed after \\d+\\.\\d{3} s\\.\n$`),
    )
    expect(agent.heard).toEqual(['suspend It mails twice'])
    const resumed = (await done(['resume', id, '--json'], asAdmin())).json<Done>()
    expect(resumed).toMatchObject({ ok: true, instance_id: id, status: 'active', confirmed: true })
    expect(resumed.confirm_ms).toBeTypeOf('number')
    expect(agent.heard).toEqual(['suspend It mails twice', 'resume'])
    agent.close()
  })

  test('exit with code 5 without a confirmation in time, although the instance is suspended', async () => {
    const id = await newInstance(service)
    const run = wardline(['kill', id, '--reason', 'why', '--timeout', '0.2', '--json'], asAdmin())
    expect(await run.exited).toBe(5)
    expect(run.json()).toMatchObject({ status: 'suspended', confirmed: false, confirm_ms: null })
    expect(run.notices()).toEqual([{ code: 'unconfirmed', error: expect.stringContaining('within 0.2 s') }])
    const state = await service.call('GET', `/api/instances/${id}/status`)
    expect(state.body).toEqual({ suspended: true, reason: 'why' })
    expect((await done(['resume', id, '--no-wait', '--json'], asAdmin())).json()).toMatchObject({ confirmed: null })
  })

  test('do not wait with --no-wait', async () => {
    const id = await newInstance(service)
    expect((await done(['kill', id, '--reason', 'why', '--no-wait'], asAdmin())).stdout()).toBe(
      `${id} is suspended: why\n`,
    )
    expect((await done(['resume', id, '--no-wait'], asAdmin())).stdout()).toBe(`${id} is resumed\n`)
  })

  test('report a change that came in between', async () => {
    const id = await newInstance(service)
    const run = started(['kill', id, '--reason', 'why', '--timeout', '30'], asAdmin())
    await until('the line about the kill', run.stdout, (text) => text.includes('is suspended'))
    await service.call('POST', `/api/resume/${id}`)
    expect(await run.exited).toBe(5)
    expect(run.stderr()).toContain(`${id} was resumed by another operator`)
  })
})

describe('events', () => {
  test('are searched with the filters of the list, and paged', async () => {
    const id = await newInstance(service, 'searched')
    const word = unique('needle')
    for (let index = 0; index < 5; index++) {
      await postEvent(service, {
        instance_id: id,
        severity: 'critical',
        event_type: 'policy_violation',
        description: `${word} ${index}`,
      })
    }
    const filters = [
      '--instance',
      id,
      '--severity',
      'critical',
      '--type',
      'policy_violation',
      '--grep',
      word.toUpperCase(),
      '--from',
      '1h',
    ]
    const text = await done(['events', ...filters, '--limit', '2'], asAdmin())
    expect(text.stdout()).toMatch(
      new RegExp(`critical +${id}: a policy violation, reported by another source {2}${word} 4\n.*${word} 3\n$`),
    )
    const cursor = /--before (\d+)/.exec(text.stderr())?.[1] ?? ''
    const rest = (await done(['events', 'list', ...filters, '--before', cursor, '--json'], asAdmin())).json<{
      events: EventRow[]
      next: string | null
    }>()
    expect(rest.events.map(({ description }) => description)).toEqual([`${word} 2`, `${word} 1`, `${word} 0`])
    expect(rest.next).toBeNull()
    expect((await done(['events', ...filters, '--to', '30m', '--json'], asAdmin())).json()).toEqual({
      events: [],
      control: [],
      next: null,
    })
  })

  test('exit without an error when the reader closes the pipe', async () => {
    await postEvent(service)
    const command = `"${process.execPath}" "${inject('command')}" events export --format ndjson --include event | head -c 10; echo " \${PIPESTATUS[0]}"`
    const child = spawn('bash', ['-c', command], {
      cwd: home,
      env: { PATH: process.env.PATH ?? '', HOME: home, ...asAdmin() },
    })
    let output = ''
    child.stdout.on('data', (text) => {
      output += text
    })
    await new Promise((resolve) => child.once('close', resolve))
    expect(output).toMatch(/^\{"id":"[^"]* 0\n$/)
  })
})

/** Stores events a thousand at a time. */
async function store(target: Service, count: number, event: (index: number) => object): Promise<void> {
  for (let start = 0; start < count; start += 1_000) {
    const body = Array.from({ length: Math.min(1_000, count - start) }, (_, index) => event(start + index))
    const answer = await target.call<BatchAnswer>('POST', '/api/events/batch', { body })
    expect(answer.body.ok, answer.text.slice(0, 500)).toBe(true)
  }
}

/** Parses CSV by RFC 4180. */
const csvRecords = (text: string): string[][] =>
  [...text.matchAll(/(?:(?:^|,)(?:"(?:[^"]|"")*"|[^",\r\n]*))+\r\n/gm)].map(([record]) =>
    [...record.trimEnd().matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^",]*))/g)].map((field) =>
      (field[1] ?? field[2] ?? '').replaceAll('""', '"'),
    ),
  )

describe('events export', () => {
  const session = unique('export')
  const count = 3_210
  const file = join(home, 'export.out')
  let rows: EventRow[]

  beforeAll(async () => {
    await store(service, count, (index) =>
      anEvent({
        session_id: session,
        severity: (['info', 'warning', 'critical', 'breach'] as const)[index % 4]!,
        description: index % 3 === 0 ? `=1+${index}\n"quoted", a|b=c\\ \u001b[2J` : `plain ${index}`,
        metadata: { index },
      }),
    )
    rows = (await allEvents(service)).filter((row) => row.session_id === session)
    expect(rows).toHaveLength(count)
  })

  const lines = (text: string) => text.split('\n').filter((line) => line !== '')
  /** Exported fields of each event, to compare with the stored ones. */
  const readers: Record<string, (text: string) => [id: string, seq: number][]> = {
    ndjson: (text) =>
      lines(text)
        .map((line) => JSON.parse(line))
        .map(({ id, seq }) => [id, seq]),
    csv: (text) => {
      const [head, ...records] = csvRecords(text)
      expect(head?.slice(0, 3)).toEqual(['id', 'seq', 'created_at'])
      expect(records.flat().filter((field) => /^[=+\-@]/.test(field))).toEqual([])
      return records.map(([id = '', seq]) => [id, Number(seq)])
    },
    cef: (text) =>
      lines(text).map((line) => {
        expect(line).toMatch(/^CEF:0\|Wardline\|Wardline\|[\d.]+\|policy_note\|policy note\|(2|5|8|10)\|rt=\d{13} /)
        return [/ externalId=([^ ]+) /.exec(line)?.[1] ?? '', Number(/ cn1=(\d+)$/.exec(line)?.[1])]
      }),
    ocsf: (text) =>
      lines(text)
        .map((line) => JSON.parse(line))
        .map(({ class_uid, metadata }) => {
          expect(class_uid).toBe(2004)
          return [metadata.uid, metadata.sequence]
        }),
    ecs: (text) =>
      lines(text)
        .map((line) => JSON.parse(line))
        .map(({ event }) => [event.id, event.sequence]),
  }

  test.each(Object.keys(readers))(
    'writes every event once as %s, into a file that only its owner can read',
    async (format) => {
      writeFileSync(file, 'what was there before')
      const run = await done(
        ['events', 'export', '--format', format, '--session', session, '--output', file, '--json'],
        asAdmin(),
      )
      expect(run.json()).toEqual({
        ok: true,
        format,
        events: count,
        control: 0,
        audit: 0,
        output: file,
        cursor: expect.stringMatching(/^e\d+@\d{13}$/),
      })
      const text = readFileSync(file, 'utf8')
      expect(readers[format]!(text)).toEqual(rows.map(({ id, seq }) => [id, seq]))
      // Whatever the events contain, the output has no control characters.
      expect(text.replaceAll(/\r?\n/g, '')).not.toMatch(/\p{Cc}/u)
      expect((statSync(file).mode & 0o777).toString(8)).toBe('600')
      expect(readdirSync(home).filter((name) => name.endsWith('.part'))).toEqual([])
    },
  )

  test('writes to standard output, and notices to standard error', async () => {
    const run = await done(
      ['events', 'export', '--format', 'ndjson', '--session', session, '--severity', 'breach'],
      asAdmin(),
    )
    expect(run.rows().map(({ severity }) => severity)).toEqual(Array(Math.floor(count / 4)).fill('breach'))
    expect(run.stderr()).toContain(`${Math.floor(count / 4)} events as ndjson`)
  })

  test('leaves the old file unchanged and no partial new one when the service fails', async () => {
    const page = { events: rows.slice(0, 1_000), next: '17' }
    const url = await serve((incoming, response) => {
      const isSecond = /before=17(&|$)/.test(incoming.url ?? '')
      response.writeHead(isSecond ? 400 : 200, {
        'content-type': 'application/json',
        ...(isSecond ? { 'x-error-code': 'invalid' } : {}),
      })
      response.end(JSON.stringify(isSecond ? { error: 'before is of another time.' } : page))
    })
    writeFileSync(file, 'what was there before')
    const run = wardline(
      ['events', 'export', '--format', 'csv', '--include', 'event', '--output', file],
      as('a-key', url),
    )
    expect(await run.exited).toBe(2)
    expect(run.stderr()).toContain('before is of another time.')
    expect(readFileSync(file, 'utf8')).toBe('what was there before')
    expect(existsSync(`${file}.part`)).toBe(false)
  })
})

describe('events export of a service that is briefly unavailable', () => {
  test('continues at its position', async () => {
    const [event] = await allEvents(service)
    let asked = 0
    const url = await serve((incoming, response) => {
      asked++
      const isSecond = /before=17(&|$)/.test(incoming.url ?? '')
      if (isSecond && asked < 5)
        return void response.writeHead(503, { 'x-error-code': 'overloaded' }).end('{"error":"Full."}')
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ events: [event], next: isSecond ? null : '17' }))
    })
    const run = await done(['events', 'export', '--format', 'ndjson', '--include', 'event'], as('a-key', url))
    expect(run.rows()).toEqual([event, event])
    expect(asked).toBe(5)
  })
})

describe('decoys', () => {
  test('are planted, listed, shown and deleted', async () => {
    const id = await newInstance(service)
    const planted = await done(
      ['decoys', 'create', '--instance', id, '--key-type', 'github', '--label', 'in .env'],
      asAdmin(),
    )
    expect(planted.stdout()).toMatch(/^ghp_\w+\n$/)
    const decoyId = /Decoy (\S+) \(github\)/.exec(planted.stderr())?.[1] ?? ''
    const path = `/srv/${id}/.aws/credentials`
    const made = (await done(['decoys', 'create', '--instance', id, '--path', path, '--json'], asAdmin())).json<{
      id: string
    }>()
    expect(made).toMatchObject({ ok: true, type: 'file_path', path })
    const everywhere = await done(['decoys', 'create', '--path', `${path}-of-all`], asAdmin())
    expect(everywhere.stdout()).toMatch(new RegExp(`^Decoy \\S+ for every agent: ${path}-of-all\n$`))
    const all = (await done(['decoys', 'list'], asAdmin())).stdout()
    expect(all).toMatch(new RegExp(`  path +every agent +issued +no hits +${path}-of-all$`, 'm'))
    const keyless = started(['decoys', 'create', '--key-type', 'aws'], asAdmin())
    expect(await keyless.exited).toBe(64)
    expect(keyless.stderr()).toContain('Option --instance <id> is required for a decoy key.')

    await service.call('POST', '/api/honeypots/check/key', {
      body: { key: planted.stdout().trim(), meta: { tool: 'shell-exec', instance_id: id } },
    })
    const list = (await done(['decoys', 'list', '--instance', id, '--json'], asAdmin())).json<{
      honeypots: { id: string }[]
    }>()
    expect(list.honeypots.map((decoy) => decoy.id).sort()).toEqual([decoyId, made.id].sort())
    const rows = (await done(['decoys', 'list', '--instance', id], asAdmin())).stdout()
    expect(rows).toMatch(new RegExp(`^${decoyId}  key github  ${id}  tripped  1 hit, last [\\d:TZ-]+  in \\.env$`, 'm'))
    expect(rows).toMatch(new RegExp(`^${made.id}  path        ${id}  issued   no hits +${path}$`, 'm'))
    const shown = (await done(['decoys', 'show', decoyId], asAdmin())).stdout()
    expect(shown).toContain('Label     in .env')
    expect(shown).toMatch(/Hits {6}1\n[\s\S]*shell-exec/)
    expect(shown).not.toContain(planted.stdout().trim())
    expect((await done(['decoys', 'show', made.id, '--json'], asAdmin())).json()).toMatchObject({ path, hits: [] })
    const noted = ['decoys', 'planted', decoyId, '--note', 'In the image', '--file', 'app/.env']
    expect((await done(noted, asAdmin())).stdout()).toContain('noted as planted')
    const rotated = await done(['decoys', 'rotate', decoyId], asAdmin())
    expect(rotated.stdout()).toMatch(/^ghp_\w+\n$/)
    expect(rotated.stdout()).not.toBe(planted.stdout())
    const retired = ['decoys', 'list', '--instance', id, '--state', 'retired']
    expect((await done(retired, asAdmin())).stdout()).toMatch(new RegExp(`^${decoyId} .* retired `))
    expect((await done(['decoys', 'test', made.id], asAdmin())).stdout()).toContain('A test hit')
    expect((await done(['decoys', 'show', made.id], asAdmin())).stdout()).toMatch(/Hits {6}0\n[\s\S]*test/)
    const tool = `tool ${id}`.slice(0, 24)
    const rule = await done(['decoys', 'ignore', tool, '--reason', 'Reads all', '--for', '1d', '--json'], asAdmin())
    expect((await done(['decoys', 'ignores'], asAdmin())).stdout()).toContain(tool)
    await done(['decoys', 'unignore', rule.json<{ id: string }>().id], asAdmin())
    const scanned = await done(['decoys', 'allow-list', '--format', 'gitleaks'], asAdmin())
    expect(scanned.stdout()).toContain(`'''(^|/)app/\\.env$'''`)
    expect((await done(['decoys', 'presets'], asAdmin())).stdout()).toContain('OPENAI_API_KEY_PROD={{value}}')
    expect((await done(['decoys', 'delete', decoyId], asAdmin())).stdout()).toContain('is deleted')
    expect((await done(['decoys', 'delete', made.id, '--json'], asAdmin())).json()).toEqual({ ok: true, id: made.id })
    const again = wardline(['decoys', 'delete', '00000000-0000-4000-8000-000000000000'], asAdmin())
    expect(await again.exited).toBe(2)
  })
})

describe('keys', () => {
  interface Created {
    id: string
    key: string
  }
  interface Listed {
    keys: { id: string; revoked_at: string | null }[]
  }

  test('are created, listed, rotated and revoked at the given service', async () => {
    const created = (
      await done(['keys', 'create', '--scope', 'viewer', '--name', 'far away', '--json'], asAdmin())
    ).json<Created>()
    expect((await service.call('GET', '/api/status', { key: created.key })).status).toBe(200)
    const printed = await done(
      ['keys', 'create', '--scope', 'agent', '--name', 'bot', '--instance', 'bot-*'],
      asAdmin(),
    )
    expect(printed.stdout()).toMatch(/^wl_agent_\w+\n$/)
    const rotated = (await done(['keys', 'rotate', created.id, '--overlap', '0', '--json'], asAdmin())).json<Created>()
    expect((await service.call('GET', '/api/status', { key: rotated.key })).status).toBe(200)
    expect((await done(['keys', 'revoke', rotated.id, '--json'], asAdmin())).json()).toEqual({
      ok: true,
      id: rotated.id,
    })
    expect((await service.call('GET', '/api/status', { key: rotated.key })).status).toBe(401)
    const list = await done(['keys', 'list', '--json'], asAdmin())
    expect(list.json<Listed>().keys.find(({ id }) => id === rotated.id)?.revoked_at).not.toBeNull()
    expect(list.stdout()).not.toContain(created.key)
    expect((await done(['keys', 'list'], asAdmin())).stdout()).toMatch(
      new RegExp(`^${rotated.id} {2}viewer {4}revoked`, 'm'),
    )
  })

  test('may be those of supervisors', async () => {
    const local = { WARDLINE_DATA_DIR: newDataDir() }
    await done(['keys', 'create', '--scope', 'agent', '--instance', 'bot', '--supervisor'], local)
    expect((await done(['keys', 'list'], local)).stdout()).toMatch(/ bot {2}bot {2,}supervisor\n/)
  })

  test('are those of the local database when no service is given, and always with --local', async () => {
    const local = { WARDLINE_DATA_DIR: newDataDir() }
    const created = (
      await done(
        ['keys', 'create', '--scope', 'operator', '--name', 'here', '--approves', 'b', '--approves', 'a', '--json'],
        local,
      )
    ).json<Created>()
    expect((await done(['keys', 'list'], local)).stdout()).toMatch(/ here {2,}approves=a,b\n/)
    const models = ['--models', 'openai/gpt-5*', '--models', 'anthropic/*']
    const limitedTo = { WARDLINE_DATA_DIR: newDataDir() }
    await done(['keys', 'create', '--scope', 'agent', '--instance', 'bot', ...models], limitedTo)
    expect((await done(['keys', 'list'], limitedTo)).stdout()).toMatch(/models=anthropic\/\*,openai\/gpt-5\*\n/)
    for (const env of [local, { ...local, WARDLINE_URL: service.baseUrl }]) {
      const list = (await done(['keys', 'list', '--local', '--json'], env)).json<Listed>()
      expect(list.keys.map(({ id }) => id)).toEqual([created.id])
    }
    const remote = (await done(['keys', 'list', '--json'], { ...local, ...asAdmin() })).json<Listed>()
    expect(remote.keys.map(({ id }) => id)).not.toContain(created.id)
    expect((await done(['keys', 'revoke', created.id], local)).stdout()).toBe(`Key ${created.id} is revoked.\n`)
    const unknown = wardline(['keys', 'revoke', created.id], local)
    expect(await unknown.exited, unknown.stderr()).toBe(2)
  })
})

describe('profile', () => {
  test('stores a service with its key in a file that only its owner can read', async () => {
    const env = { XDG_CONFIG_HOME: newDataDir() }
    const keyFile = join(home, 'key')
    writeFileSync(keyFile, `${service.key}\n`)
    const file = join(env.XDG_CONFIG_HOME, 'wardline', 'config.json')
    const set = await done(['profile', 'set', 'prod', '--url', service.baseUrl, '--key-file', keyFile], env)
    expect(set.stdout()).toBe(`Profile prod is set in ${file}.\n`)
    expect((statSync(file).mode & 0o777).toString(8)).toBe('600')
    const list = await done(['profile', 'list', '--json'], env)
    expect(list.json()).toEqual({ profiles: [{ name: 'prod', url: service.baseUrl, key: true }] })
    expect((await done(['profile', 'list'], env)).stdout()).toBe(`prod  ${service.baseUrl}  with a key\n`)

    for (const [args, more] of [
      [['status', '--json', '--profile', 'prod'], {}],
      [['status', '--json'], { WARDLINE_PROFILE: 'prod' }],
      [['status', '--json', '--url', service.baseUrl, '--key-file', keyFile], {}],
      [['status', '--json'], { WARDLINE_URL: service.baseUrl, WARDLINE_KEY_FILE: keyFile }],
    ] as const) {
      expect((await done([...args], { ...env, ...more })).json()).toHaveProperty('instances')
    }

    // The file is readable by its group, so every member can read the key.
    chmodSync(file, 0o640)
    const refused = wardline(['status', '--profile', 'prod', '--json'], env)
    expect(await refused.exited).toBe(78)
    expect(refused.notices()).toEqual([{ code: 'configuration', error: expect.stringContaining(`chmod 600 ${file}`) }])
    chmodSync(file, 0o600)
    await done(['profile', 'remove', 'prod', '--json'], env)
    expect((await done(['profile', 'list', '--json'], env)).json()).toEqual({ profiles: [] })
    const unknown = wardline(['profile', 'remove', 'prod'], env)
    expect(await unknown.exited).toBe(2)
  })
})

describe('faults', () => {
  interface Case {
    says: string
    args: string[]
    env: () => Record<string, string> | Promise<Record<string, string>>
    exit: number
    code: string
  }
  const status = ['status']
  const cases: Case[] = [
    { says: 'no key', args: status, env: () => ({ WARDLINE_URL: service.baseUrl }), exit: 3, code: 'no_key' },
    { says: 'a wrong key', args: status, env: () => as('wl_admin_wrong'), exit: 3, code: 'unauthorized' },
    {
      says: 'a key that may not do it',
      args: ['kill', 'any', '--reason', 'x'],
      env: async () => as(await createKey(service, { scope: 'viewer' })),
      exit: 3,
      code: 'forbidden',
    },
    {
      says: 'an unknown instance',
      args: ['kill', 'no-such', '--reason', 'x'],
      env: asAdmin,
      exit: 2,
      code: 'not_found',
    },
    { says: 'an id that is none', args: ['instances', 'NO SUCH/../'], env: asAdmin, exit: 2, code: 'invalid' },
    { says: 'a blank reason', args: ['kill', 'any', '--reason', ' '], env: asAdmin, exit: 2, code: 'invalid' },
    { says: 'nobody there', args: status, env: async () => as('k', await deadUrl()), exit: 4, code: 'unreachable' },
    {
      says: 'nobody there to follow',
      args: ['tail'],
      env: async () => as('k', await deadUrl()),
      exit: 4,
      code: 'unreachable',
    },
    { says: 'an option that there is not', args: ['status', '--nosuch'], env: asAdmin, exit: 64, code: 'usage' },
    { says: 'a key on the command line', args: ['status', '--key', 'k'], env: asAdmin, exit: 64, code: 'usage' },
    { says: 'a command that there is not', args: ['nosuch'], env: asAdmin, exit: 64, code: 'usage' },
    { says: 'a missing reason', args: ['kill', 'any'], env: asAdmin, exit: 64, code: 'usage' },
    { says: 'an address that is none', args: ['status', '--url', 'monitor'], env: asAdmin, exit: 64, code: 'usage' },
    { says: 'an unknown profile', args: ['status', '--profile', 'x'], env: asAdmin, exit: 78, code: 'configuration' },
    {
      says: 'a key file that is not there',
      args: ['status', '--key-file', '/nosuch'],
      env: asAdmin,
      exit: 78,
      code: 'configuration',
    },
    {
      says: 'two keys',
      args: status,
      env: () => ({ ...asAdmin(), WARDLINE_KEY_FILE: '/x' }),
      exit: 78,
      code: 'configuration',
    },
  ]

  test.each(cases)('of $says: exit code $exit, code $code', async ({ args, env, exit, code }) => {
    const given = await env()
    const [text, json] = [wardline(args, given), wardline([...args, '--json'], given)]
    expect([await text.exited, await json.exited], `${text.stderr()}\n${json.stderr()}`).toEqual([exit, exit])
    expect(text.stderr()).toMatch(/\S/)
    expect(text.stderr()).not.toMatch(/\n {4}at /)
    expect(json.notices()).toEqual([{ error: expect.stringMatching(/\S/), code }])
    expect(text.stdout() + json.stdout()).toBe('')
  })

  const html = '<!doctype html><title>Router \u001b[2J</title>'
  const strangers: [string, RequestListener][] = [
    ['a page for everything', (_request, response) => response.end(html)],
    ['a page that is not there', (_request, response) => response.writeHead(404).end(html)],
    ['a proxy without a service', (_request, response) => response.writeHead(502).end('Bad gateway')],
    ['empty JSON', (_request, response) => response.end('{}')],
    ['JSON of another kind', (_request, response) => response.end('[1,2,{"instances":{}}]')],
    [
      'almost the right JSON',
      (_request, response) => response.end('{"instances":[null],"stats":7,"toolCalls":{},"events":[1],"next":9}'),
    ],
    [
      'half an answer',
      (_request, response) => response.writeHead(200, { 'content-length': '99', connection: 'close' }).end('{"inst'),
    ],
    [
      'a stream of something else',
      (_request, response) =>
        response
          .writeHead(200, { 'content-type': 'text/event-stream' })
          .end('data: {"type":"event","data":7}\n\ndata: \u001b[2J\n\n'),
    ],
    ['nothing but a closed door', (incoming) => incoming.socket.destroy()],
  ]

  test.each(strangers)(
    'of a server that is not Wardline and gives %s: exit code 4, without a stack or a control character',
    async (_what, listener) => {
      const url = await serve(listener)
      const commands = [
        ['status'],
        ['events', 'list'],
        ['instances'],
        ['tail'],
        ['events', 'export', '--format', 'csv'],
      ]
      const runs = commands.map((args) => started(args, as('a-key', url)))
      // The command reopens a stream that ends.
      for (const run of runs)
        void until('an end or a notice', run.stderr, (text) => text.includes('disconnected')).then(
          () => run.kill('SIGINT'),
          () => {},
        )
      for (const [index, run] of runs.entries()) {
        const code = await run.exited
        const isStream = commands[index]![0] === 'tail'
        expect(isStream ? [0, 4] : [4], `${commands[index]!.join(' ')}: ${run.stderr()}`).toContain(code)
        expect(run.stderr()).not.toMatch(/\n {4}at |TypeError|undefined/)
        expect((run.stdout() + run.stderr()).replaceAll(/\r?\n/g, '')).not.toMatch(/\p{Cc}/u)
      }
    },
  )

  // Another server in place of the service would control the text that the operator reads.
  test('of a refusal: its sentence is escaped for the terminal and stays on its line', async () => {
    const sentence = 'No.\u001b[2J\u001b]0;owned\u0007\r\nsupport-bot-1 is suspended\u202e'
    const url = await serve((_request, response) =>
      response.writeHead(400, { 'x-error-code': 'invalid' }).end(JSON.stringify({ error: sentence })),
    )
    for (const more of [[], ['--json']]) {
      const run = wardline(['kill', 'support-bot-1', '--reason', 'x', ...more], as('a-key', url))
      expect(await run.exited).toBe(2)
      expect(run.stderr().trimEnd()).not.toMatch(/\p{Cc}|\u202e/u)
      expect(run.stdout()).toBe('')
    }
  })

  // A kill whose response was lost may have happened: the output must claim neither success nor failure.
  test('of a kill whose response is lost: the outcome is reported as unknown', async () => {
    const url = await serve((incoming) => incoming.socket.destroy())
    const lost = wardline(['kill', 'bot-1', '--reason', 'x'], as('a-key', url))
    expect(await lost.exited).toBe(4)
    expect(lost.stderr()).toContain('It may have taken effect: wardline instances bot-1 shows the state.')
    const unsent = wardline(['kill', 'bot-1', '--reason', 'x'], as('a-key', await deadUrl()))
    expect(await unsent.exited).toBe(4)
    expect(unsent.stderr()).not.toContain('not known')
  })

  // The admin key of this machine must not be sent to a mistyped address.
  test('of another address: the key in the data folder is not sent there', async () => {
    const dataDir = newDataDir()
    writeFileSync(join(dataDir, 'admin-key'), service.key)
    const env = { WARDLINE_DATA_DIR: dataDir }
    await done(['status', '--url', service.baseUrl], env)
    for (const url of ['http://127.0.0.2:1', 'http://localhost.evil.example']) {
      const run = wardline(['status', '--url', url, '--json'], env)
      expect(await run.exited).toBe(3)
      expect(run.notices()).toEqual([{ code: 'no_key', error: expect.stringContaining(url) }])
    }
  })

  // Otherwise a page at a mistyped address could redirect the key to another server.
  test('of a redirected stream: the key is not sent to another host', async () => {
    const seen: (string | undefined)[] = []
    const elsewhere = await serve((incoming, response) => {
      seen.push(String(incoming.headers['x-monitor-key']))
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end('data: {"type":"heartbeat"}\n\n')
    })
    const url = await serve((incoming, response) => {
      if (incoming.url === '/api/stream') response.writeHead(307, { location: `${elsewhere}/api/stream` }).end()
      else
        response
          .writeHead(403, { 'x-error-code': 'forbidden', 'content-type': 'application/json' })
          .end('{"error":"No."}')
    })
    const run = started(['tail'], as('wl_secret', url))
    expect(await run.exited).toBe(4)
    expect(seen).toEqual([])
  })
})

describe('tail', () => {
  const connected = (run: Run, count = 1) =>
    until(
      'a connection',
      run.notices,
      (notices) => notices.filter(({ notice }) => notice === 'connected').length >= count,
      20_000,
    )

  test('shows matching events on one line each, and exits with 0 when it is stopped', async () => {
    const id = await newInstance(service, 'tailed')
    const args = ['tail', '--instance', `${id.slice(0, -2)}*`, '--severity', 'critical', 'breach', '--grep', 'NEEDLE']
    const run = started(args, asAdmin())
    await until('a connection', run.stderr, (text) => text.includes(`connected to ${service.baseUrl}`))
    await postEvent(service, { instance_id: id, severity: 'info', description: 'a needle, but harmless' })
    await postEvent(service, { instance_id: id, severity: 'critical', description: 'no such word' })
    await postEvent(service, { severity: 'critical', description: 'a needle of nobody' })
    await postEvent(service, { instance_id: id, severity: 'breach', description: 'needle\u001b[2J\nFORGED  critical' })
    await until('the event', run.stdout, (text) => text.includes('FORGED'))
    run.kill('SIGINT')
    expect(await run.exited).toBe(0)
    expect(run.stdout()).toMatch(
      new RegExp(
        `^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ  breach    ${id}: policy_note, reported by another source  needle \\[2J FORGED  critical\n$`,
      ),
    )
  })

  test('colours by severity if requested, and never with NO_COLOR', async () => {
    const word = unique('coloured')
    await postEvent(service, { severity: 'critical', description: word })
    const list = (env: Record<string, string>) => done(['events', '--grep', word], { ...asAdmin(), ...env })
    expect((await list({ FORCE_COLOR: '1' })).stdout()).toContain('\u001b[31mcritical')
    expect((await list({})).stdout()).not.toContain('\u001b')
    expect((await list({ NO_COLOR: '1' })).stdout()).not.toContain('\u001b')
  })

  test('starts with the events since a given time', async () => {
    const source = unique('since')
    for (let index = 0; index < 3; index++) await postEvent(service, { source, description: `before ${index}` })
    const run = started(['tail', '--since', '1h', '--grep', source, '--json'], asAdmin())
    await until('the events before', run.rows, (rows) => rows.length === 3)
    await postEvent(service, { source, description: 'after' })
    await until('the event after', run.rows, (rows) => rows.length === 4)
    expect(run.rows().map(({ description }) => description)).toEqual(['before 0', 'before 1', 'before 2', 'after'])
  })

  test('follows an open stream without a key', async () => {
    const run = started(['tail', '--json'], { WARDLINE_URL: service.baseUrl })
    await connected(run)
    const description = unique('keyless')
    await postEvent(service, { description })
    await until('the event', run.rows, (rows) => rows.some((row) => row.description === description))
  })

  test.skipIf(isExternal)('loses and repeats no event when the service is killed and restarted', async () => {
    const own = await startService({ env: { WARDLINE_STREAM_AUTH: 'session' } })
    try {
      const run = started(['tail', '--json'], { WARDLINE_URL: own.baseUrl, WARDLINE_KEY: own.key })
      await connected(run)
      // The first connection is lost before any message.
      await own.kill9()
      await until('the notice', run.notices, (notices) => notices.some(({ notice }) => notice === 'disconnected'))
      await own.start()
      await store(own, 30, (index) => anEvent({ description: `first ${index}` }))
      await connected(run, 2)
      await own.restart()
      // Stored before the client reconnects.
      await store(own, 50, (index) => anEvent({ description: `second ${index}` }))
      await connected(run, 3)
      await store(own, 20, (index) => anEvent({ description: `third ${index}` }))
      await until('every event', run.rows, (rows) => rows.length >= 100, 20_000)
      const stored = (await allEvents(own)).toReversed()
      expect(run.rows()).toEqual(stored)
      expect(run.notices().map(({ notice }) => notice)).toEqual([
        'connected',
        'disconnected',
        'connected',
        'disconnected',
        'connected',
      ])
      run.kill('SIGTERM')
      expect(await run.exited).toBe(0)
    } finally {
      await own.stop()
    }
  })

  test.skipIf(isExternal)('reports how many events a gap skipped, and exits when its key is revoked', async () => {
    const own = await startService({ env: { WARDLINE_STREAM_AUTH: 'session' } })
    try {
      const key = await createKey(own, { scope: 'viewer' })
      await store(own, 10_100, (index) => anEvent({ description: `event ${index}` }))
      const run = started(['tail', '--since', '1h', '--json'], { WARDLINE_URL: own.baseUrl, WARDLINE_KEY: key })
      await until('every event that is left', run.rows, (rows) => rows.length >= 10_000, 20_000)
      expect(run.rows().map(({ seq }) => seq)).toEqual(Array.from({ length: 10_000 }, (_, index) => index + 101))
      const skipped = run.notices().find(({ notice }) => notice === 'skipped')
      expect(skipped).toEqual({ notice: 'skipped', events: 100, after: 0, resumes_after: 100, reason: 'replay_limit' })

      const keyId = key.split('_')[2]
      expect((await own.call('DELETE', `/api/keys/${keyId}`)).status).toBe(200)
      expect(await run.exited).toBe(3)
      expect(run.notices().at(-1)).toMatchObject({ code: 'unauthorized' })
    } finally {
      await own.stop()
    }
  })

  test.skipIf(isExternal)('is refused without a key if the stream needs one', async () => {
    const own = await startService({ env: { WARDLINE_STREAM_AUTH: 'session' } })
    try {
      const run = started(['tail', '--json'], { WARDLINE_URL: own.baseUrl })
      expect(await run.exited).toBe(3)
    } finally {
      await own.stop()
    }
  })
})

describe('doctor', () => {
  interface Report {
    ok: boolean
    checks: { name: string; status: string; detail: string; fix?: string }[]
  }
  const verdicts = ({ checks }: Report) => Object.fromEntries(checks.map(({ name, status }) => [name, status]))

  test('reports a healthy service, and tests the control path on request', async () => {
    await newInstance(service)
    const report = (await done(['doctor', '--probe', '--json'], asAdmin())).json<Report>()
    expect(verdicts(report), JSON.stringify(report)).toEqual({
      service: 'ok',
      transport: 'ok',
      clock: 'ok',
      database: 'ok',
      key: 'ok',
      'without a key': 'ok',
      // A warning, because none is configured.
      channels: 'warn',
      'event index': 'ok',
      'live stream': 'ok',
      'control stream': 'ok',
      'control path': 'ok',
    })
    // A second run works despite the data of the first one.
    const text = (await done(['doctor', '--probe'], asAdmin())).stdout()
    expect(text).toMatch(/^ok {4}control path +A kill reached wardline-doctor after \d+ ms/m)
    expect(text).not.toContain(service.key)
  })

  test('kills nothing by default', async () => {
    const before = (await service.call<{ entries: unknown[] }>('GET', '/api/audit?limit=1000')).body.entries.length
    await done(['doctor'], asAdmin())
    expect((await service.call<{ entries: unknown[] }>('GET', '/api/audit?limit=1000')).body.entries).toHaveLength(
      before,
    )
  })

  test.skipIf(isExternal)('adds events to the index that lists use, where they are missing', async () => {
    const own = await startService()
    const database = new DatabaseSync(join(own.dataDir, 'wardline.db'), { timeout: 10_000 })
    try {
      await store(own, 30, () => anEvent({ instance_id: 'agent-a' }))
      const indexed = database.prepare(`select value from counters where name = 'indexed_seq'`)
      await until(
        'the index',
        () => indexed.get()!.value,
        (value) => value === 30,
      )
      database.exec('delete from event_refs where seq <= 7')
      const index = async (key: string) => {
        const env = { WARDLINE_URL: own.baseUrl, WARDLINE_KEY: key }
        return (await done(['doctor', '--json'], env)).json<Report>().checks.find(({ name }) => name === 'event index')
      }
      expect(await index(await createKey(own, { scope: 'viewer' }))).toMatchObject({ status: 'skip' })
      expect(await index(own.key)).toMatchObject({
        status: 'warn',
        detail: 'Of all 30 events, 7 were missing in lists by agent, session or type and were added.',
        fix: expect.stringContaining('wardline doctor'),
      })
      expect(await index(own.key)).toEqual({
        name: 'event index',
        status: 'ok',
        detail: 'Lists by agent, session and type have all 30 events.',
      })
      const page = await own.call<EventPage>('GET', '/api/events?instance_id=agent-a')
      expect(page.body.events).toHaveLength(30)
    } finally {
      database.close()
      await own.stop()
    }
  })

  test('shows the rights of a key, and fails for an invalid or missing one', async () => {
    const key = async (env: Record<string, string>, exit: number) => {
      const run = wardline(['doctor', '--json'], env)
      expect(await run.exited, run.stdout()).toBe(exit)
      return run.json<Report>().checks.find(({ name }) => name === 'key')
    }
    expect(await key(as(await createKey(service, { scope: 'operator' })), 0)).toMatchObject({
      detail: expect.stringContaining('Scope operator'),
    })
    expect(await key(as(await createKey(service, { scope: 'viewer' })), 0)).toMatchObject({ status: 'warn' })
    expect(await key(as(await createKey(service, { scope: 'agent', instances: ['a-*'] })), 1)).toMatchObject({
      status: 'fail',
    })
    expect(await key(as('wl_admin_wrong'), 1)).toMatchObject({ status: 'fail', fix: expect.any(String) })
    expect(await key({ WARDLINE_URL: service.baseUrl }, 1)).toMatchObject({ detail: 'No key is configured.' })
  })

  test('reports a missing server, and one that is not Wardline', async () => {
    const dead = wardline(['doctor', '--json'], as('k', await deadUrl()))
    expect(await dead.exited).toBe(1)
    expect(verdicts(dead.json())).toEqual({ service: 'fail' })
    const stranger = wardline(['doctor'], as('k', await serve((_request, response) => response.end('<html>'))))
    expect(await stranger.exited).toBe(1)
    expect(stranger.stdout()).toContain('is not a Wardline server')
  })

  // Behind such a proxy everything seems to work, but a kill only arrives when the buffer is full.
  test('detects a proxy that buffers the stream', async () => {
    await beat(service, await newInstance(service))
    const url = await serve((incoming, response) => {
      const { pathname, search } = new URL(incoming.url ?? '', 'http://proxy')
      const { host: _host, ...headers } = incoming.headers
      const outgoing = request(
        `${service.baseUrl}${pathname}${search}`,
        { method: incoming.method, headers },
        (answer) => {
          const chunks: Buffer[] = []
          answer.on('data', (chunk: Buffer) => chunks.push(chunk))
          // Like a buffering proxy, it starts its response when the service has finished.
          answer.on('end', () =>
            response.writeHead(answer.statusCode ?? 502, answer.headers).end(Buffer.concat(chunks)),
          )
        },
      )
      outgoing.on('error', () => response.destroy())
      response.on('close', () => outgoing.destroy())
      incoming.pipe(outgoing)
    })
    const run = wardline(['doctor', '--json'], as(service.key, url))
    expect(await run.exited).toBe(1)
    const report = run.json<Report>()
    expect(verdicts(report)).toMatchObject({
      service: 'ok',
      key: 'ok',
      'live stream': 'fail',
      'control stream': 'fail',
    })
    expect(report.checks.find(({ name }) => name === 'live stream')).toMatchObject({
      detail: expect.stringContaining('buffers the stream'),
      fix: expect.stringContaining('proxy_buffering off'),
    })
  })

  test('runs the hooks of coding agents when asked', async () => {
    const ownHome = newDataDir()
    const settings = join(ownHome, '.claude', 'settings.json')
    mkdirSync(join(ownHome, '.claude'))
    writeFileSync(
      settings,
      JSON.stringify({
        hooks: { PreToolUse: [{ hooks: [{ type: 'command', command: 'true wardline-agent hook' }] }] },
      }),
    )
    const run = started(['doctor', '--hooks', '--json'], { ...asAdmin(), HOME: ownHome })
    expect(await run.exited).toBe(1)
    expect(run.json<Report>().checks.find(({ name }) => name === 'hook of Claude Code')).toMatchObject({
      status: 'fail',
      detail: expect.stringContaining('let the call through'),
    })
  })
})

describe('completion', () => {
  test.each(['bash', 'zsh', 'fish'])('prints a script for %s', async (shell) => {
    const run = await done(['completion', shell], {})
    expect(run.stdout()).toContain(`wardline completion ${shell}`)
    expect(run.stdout()).toContain('decoys')
  })

  test('completes in bash', async () => {
    const { stdout } = await done(['completion', 'bash'], {})
    const script = `${stdout()}\nCOMP_WORDS=(wardline ki); COMP_CWORD=1; _wardline; echo "\${COMPREPLY[*]}"`
    const child = spawn('bash', ['-c', script])
    let output = ''
    child.stdout.on('data', (text) => {
      output += text
    })
    await new Promise((resolve) => child.once('close', resolve))
    expect(output).toBe('kill\n')
  })
})

test('no given key appears in the output of a command', async () => {
  const key = await createKey(service, { scope: 'operator' })
  const runs = [
    ['status'],
    ['doctor'],
    ['keys', 'list'],
    ['keys', 'list', '--json'],
    ['kill', 'no-such', '--reason', 'x'],
    ['events', '--json'],
  ].map((args) => wardline(args, as(key)))
  await Promise.all(runs.map((run) => run.exited))
  for (const run of runs) expect(run.stdout() + run.stderr()).not.toContain(key)
})

test('the guide names only existing commands and options', () => {
  const guide = readFileSync(join(root, 'docs/guide/terminal.md'), 'utf8')
  const reference = readFileSync(join(root, 'docs/reference/cli.md'), 'utf8')
  const sections = new Map(
    reference.split(/^## /m).map((section) => [section.slice(0, section.indexOf('\n')), section]),
  )
  const lines = [...guide.matchAll(/^```bash\n(.*?)^```$/gms)].flatMap(([, block = '']) => block.split('\n'))
  const named = lines.filter((line) => /\bwardline\b/.test(line))
  expect(named.length).toBeGreaterThan(10)
  for (const line of named) {
    const words = line.replace(/.*?\b(?=wardline )/, '').split(/\s+/)
    const name = [3, 2].map((count) => words.slice(0, count).join(' ')).find((known) => sections.has(known))
    expect(name, line).toBeDefined()
    for (const option of line.split('#')[0]!.match(/(?<= )--[a-z-]+/g) ?? []) {
      expect(sections.get(name!), line).toContain(`  ${option} `)
    }
  }
})
