import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Command, runCommand, startCommand } from './command.ts'
import { allEvents, anEvent, createKey, newInstance, postEvent, unique } from './fleet.ts'
import { isExternal, needsOwnProcess, newDataDir, type Service, startService, until } from './service.ts'
import type { EventRow } from './shapes.ts'

interface ControlChange {
  kind: 'control'
  seq: number
  at: string
  instance_id: string
  action: 'suspend' | 'resume'
  reason: string | null
  actor_name: string | null
}

interface AuditEntry {
  seq: number
  at: string
  actor: string
  actor_name: string | null
  action: string
  target: string | null
}

if (isExternal)
  process.stdout.write(`Tests of control entries that restart a service are left out: ${needsOwnProcess}\n`)

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service?.stop())

/** A home without profiles. */
const home = newDataDir()
const env = (target: Service, key: string | null = target.key): Record<string, string> => ({
  HOME: home,
  WARDLINE_URL: target.baseUrl,
  WARDLINE_DATA_DIR: home,
  ...(key === null ? {} : { WARDLINE_KEY: key }),
})

async function run(target: Service, args: string[], key?: string): Promise<string> {
  const { output, code } = await runCommand(args, env(target, key))
  expect(code, `wardline ${args.join(' ')}\n${output}`).toBe(0)
  return output
}

const kill = async (target: Service, id: string, reason: string, key = target.key) =>
  expect((await target.call('POST', `/api/kill/${id}`, { key, body: { reason } })).status).toBe(200)
const resume = async (target: Service, id: string, key = target.key) =>
  expect((await target.call('POST', `/api/resume/${id}`, { key })).status).toBe(200)

async function allControl(target: Service): Promise<ControlChange[]> {
  const { body } = await target.call<{ changes: ControlChange[] }>('GET', '/api/control-changes?limit=1000')
  return body.changes
}
async function allAudit(target: Service): Promise<AuditEntry[]> {
  const { body } = await target.call<{ entries: AuditEntry[] }>('GET', '/api/audit?order=newest&limit=1000')
  return body.entries
}

type Row = EventRow | ControlChange
const parsed = (output: string) =>
  output
    .slice(0, output.lastIndexOf('\n') + 1)
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line))
/** Parses the output of tail: entries go to standard output, notices to standard error. */
const rowsOf = (tail: Command): Row[] => parsed(tail.output()).filter((line) => !('notice' in line))
const noticesOf = (tail: Command): string[] =>
  parsed(tail.output()).flatMap((line) => ('notice' in line ? [line.notice] : []))
const connections = (count: number) => (notices: string[]) =>
  notices.filter((notice) => notice === 'connected').length >= count

/** Summarizes an entry: the description of an event, or action and instance. */
const words = (row: Row) => ('kind' in row ? `${row.action} ${row.instance_id}` : row.description)

describe('tail', () => {
  test('shows kills and resumes live with the name of the key', async () => {
    const id = await newInstance(service, 'tailed')
    const name = unique('laptop')
    const { body } = await service.call<{ key: string; id: string }>('POST', '/api/keys', {
      body: { scope: 'operator', name },
    })
    const tail = startCommand(['tail', '--instance', id, '--severity', 'breach'], env(service))
    await until('a connection', tail.output, (text) => text.includes('connected to'))
    await kill(service, id, 'Mails\u001b[2J twice', body.key)
    await resume(service, id, body.key)
    await until('the resume', tail.output, (text) => text.includes('resumed'))
    tail.kill('SIGINT')
    const { output } = await tail.ended
    const lines = output.split('\n').filter((line) => line.includes(id))
    expect(lines).toEqual([
      expect.stringMatching(
        new RegExp(`Z {2}control {3}${id} {2}suspended by ${name} \\(${body.id}\\): Mails \\[2J twice$`),
      ),
      expect.stringMatching(new RegExp(`Z {2}control {3}${id} {2}resumed by ${name} \\(${body.id}\\)$`)),
    ])
  })

  test('shows events and control entries since a time in one order', async () => {
    const id = await newInstance(service, 'since')
    const say = (description: string) => postEvent(service, { instance_id: id, description })
    await say('first')
    await kill(service, id, 'one')
    await say('second')
    await resume(service, id)
    await say('third')
    await kill(service, id, 'two')
    const tail = startCommand(['tail', '--instance', id, '--since', '1h', '--json'], env(service))
    await until(
      'all entries',
      () => rowsOf(tail).length,
      (count) => count >= 6,
    )
    expect(rowsOf(tail).map(words)).toEqual([
      'first',
      `suspend ${id}`,
      'second',
      `resume ${id}`,
      'third',
      `suspend ${id}`,
    ])
  })

  test('without a key that may read them reports that kills are not shown', async () => {
    const id = await newInstance(service, 'keyless')
    const tail = startCommand(['tail', '--json'], { ...env(service, null), WARDLINE_DATA_DIR: newDataDir() })
    await until('a connection', () => noticesOf(tail), connections(1))
    await kill(service, id, 'unseen')
    const description = unique('seen')
    await postEvent(service, { description })
    await until(
      'the event',
      () => rowsOf(tail),
      (rows) => rows.some((row) => words(row) === description),
    )
    expect(noticesOf(tail)).toContain('control_hidden')
    expect(tail.output()).not.toContain('unseen')
  })

  test.skipIf(isExternal)('loses and repeats no kill when the service is killed and restarted', async () => {
    const own = await startService()
    try {
      const ids = await Promise.all(['a', 'b', 'c'].map((name) => newInstance(own, name)))
      const tail = startCommand(['tail', '--json'], env(own))
      await until('a connection', () => noticesOf(tail), connections(1))
      await kill(own, ids[0]!, 'before')
      for (let round = 1; round <= 3; round++) {
        await own.kill9()
        await until(
          'the notice',
          () => noticesOf(tail),
          (notices) => notices.filter((it) => it === 'disconnected').length >= round,
        )
        await own.start()
        // Some changes happen before the client reconnects, some after.
        for (const id of ids) {
          if (round % 2 === 1 && id !== ids[0]) await kill(own, id, `round ${round}`)
          else await (round % 2 === 1 ? resume(own, id) : resume(own, id).catch(() => kill(own, id, 'again')))
          await postEvent(own, { description: `round ${round}` })
        }
        await until('the connection', () => noticesOf(tail), connections(round + 1), 20_000)
      }
      const expected = (await allControl(own)).toReversed()
      const control = () => rowsOf(tail).filter((row): row is ControlChange => 'kind' in row)
      await until(
        'every kill',
        () => control().length,
        (count) => count >= expected.length,
      )
      expect(control()).toEqual(expected)
      expect(rowsOf(tail).filter((row) => !('kind' in row))).toEqual((await allEvents(own)).toReversed())
    } finally {
      await own.stop()
    }
  })
})

describe('events', () => {
  test('list kills and resumes at their times, and page through both without gaps or duplicates', async () => {
    const id = await newInstance(service, 'listed')
    const expected: string[] = []
    for (let round = 0; round < 4; round++) {
      await postEvent(service, { instance_id: id, description: `event ${round}` })
      await (round % 2 === 0 ? kill(service, id, `reason ${round}`) : resume(service, id))
      expected.unshift(`${round % 2 === 0 ? 'suspend' : 'resume'} ${id}`, `event ${round}`)
    }
    const text = await run(service, ['events', '--instance', id])
    expect(text).toMatch(new RegExp(`control {3}${id} {2}suspended by \\S+ \\(.*\\): reason 2$`, 'm'))
    for (const limit of [2, 3, 8]) {
      const rows: Row[] = []
      let before: string[] = []
      for (;;) {
        const args = ['events', '--instance', id, '--limit', String(limit), '--json', ...before]
        const page: { events: EventRow[]; control: ControlChange[]; next: string | null } = JSON.parse(
          await run(service, args),
        )
        expect(page.events.length + page.control.length).toBeLessThanOrEqual(limit)
        rows.push(...page.events, ...page.control)
        if (page.next === null) break
        before = ['--before', page.next]
      }
      expect(rows.map(words).sort(), `pages of ${limit}`).toEqual(expected.toSorted())
    }
    expect(await run(service, ['events', '--instance', id, '--type', 'policy_note'])).not.toContain('control')
  })

  test('continue at a position among events only, as in the notice of a gap', async () => {
    const id = await newInstance(service, 'placed')
    await postEvent(service, { instance_id: id, description: 'old' })
    await kill(service, id, 'between')
    await postEvent(service, { instance_id: id, description: 'new' })
    await resume(service, id)
    const [newest] = (await allEvents(service)).filter((row) => row.instance_id === id)
    const list = async (before: number) =>
      (await run(service, ['events', '--instance', id, '--before', String(before)])).split('\n').slice(0, -1)
    expect(await list(newest!.seq + 1)).toEqual([
      expect.stringContaining('new'),
      expect.stringContaining('between'),
      expect.stringContaining('old'),
    ])
    const refused = await runCommand(['events', '--before', 'x'], env(service))
    expect([refused.code, refused.output]).toEqual([64, expect.stringContaining('1234.57')])
  })
})

describe('an export', () => {
  interface Result {
    cursor: string
    events: number
    control: number
    audit: number
  }

  async function exported(target: Service, file: string, args: string[]): Promise<Result> {
    const output = await run(target, ['events', 'export', '--output', file, '--json', ...args])
    return JSON.parse(output.split('\n').find((line) => line.startsWith('{"ok"'))!)
  }

  const all = ['--include', 'event', 'control', 'audit']

  test.skipIf(isExternal)(
    'continues exactly where the last one ended, while the service is killed and rows are written',
    async () => {
      const own = await startService()
      try {
        const id = await newInstance(own, 'exported')
        const written: (EventRow | ControlChange | (AuditEntry & { kind: 'audit' }))[] = []
        let since: string[] = []
        for (let round = 0; round < 4; round++) {
          let isWriting = true
          const write = async () => {
            // On any machine fewer than a page of any list.
            for (let index = 0; isWriting && index < 150; index++) {
              // The service is killed during the change: an unconfirmed change may or may not be stored.
              await own
                .call('POST', '/api/events', { body: anEvent({ description: `${round} ${index}` }) })
                .catch(() => {})
              const path = index % 2 === 0 ? `/api/kill/${id}` : `/api/resume/${id}`
              await own.call('POST', path, index % 2 === 0 ? { body: { reason: 'why' } } : {}).catch(() => {})
            }
          }
          const writing = write()
          await until(
            'new events',
            () => allEvents(own).then((rows) => rows.length),
            (count) => count > 5 * (round + 1),
          )
          const file = join(home, `part-${round}.ndjson`)
          const exporting = exported(own, file, ['--format', 'ndjson', ...all, ...since])
          const result = await exporting
          isWriting = false
          await writing
          await own.kill9()
          await own.start()
          since = ['--since', result.cursor]
          const part = parsed(readFileSync(file, 'utf8'))
          expect(part).toHaveLength(result.events + result.control + result.audit)
          const times = part.map((row) => row.at ?? row.created_at)
          expect(times).toEqual(times.toSorted().reverse())
          written.push(...part)
        }
        // The last page.
        const file = join(home, 'rest.ndjson')
        const rest = await exported(own, file, ['--format', 'ndjson', ...all, ...since])
        written.push(...parsed(readFileSync(file, 'utf8')))
        const nothing = await exported(own, file, ['--format', 'ndjson', ...all, '--since', rest.cursor])
        expect(nothing).toMatchObject({ events: 0, control: 0, audit: 0, cursor: rest.cursor })

        const kindOf = (row: object) => ('kind' in row ? row.kind : 'event')
        const seqs = (kind: string) => written.filter((row) => kindOf(row) === kind).map(({ seq }) => seq)
        const bySeq = (left: number, right: number) => left - right
        const upTo = (rows: { seq: number }[]) => rows.map(({ seq }) => seq).sort(bySeq)
        expect(seqs('event').sort(bySeq)).toEqual(upTo(await allEvents(own)))
        expect(seqs('control').sort(bySeq)).toEqual(upTo(await allControl(own)))
        expect(seqs('audit').sort(bySeq)).toEqual(upTo(await allAudit(own)))
      } finally {
        await own.stop()
      }
    },
  )

  test.each(['ndjson', 'csv', 'cef', 'ocsf', 'ecs'])('contains control and audit entries as %s', async (format) => {
    const id = await newInstance(service, 'formats')
    await kill(service, id, unique('reason'))
    await postEvent(service, { instance_id: id })
    const file = join(home, `all.${format}`)
    const result = await exported(service, file, ['--format', format, '--instance', id, ...all])
    expect(result).toMatchObject({ events: 1, control: 1, audit: 1 })
    expect(readFileSync(file, 'utf8').trimEnd().split('\n')).toHaveLength(format === 'csv' ? 4 : 3)
    expect(await exported(service, file, ['--format', format, '--instance', id])).toMatchObject({
      events: 1,
      control: 1,
      audit: 0,
    })
  })

  test('refuses a cursor of another database, and one without a position for an exported kind', async () => {
    await kill(service, await newInstance(service), 'so that there is something')
    await postEvent(service)
    const { cursor } = await exported(service, join(home, 'whole'), ['--format', 'ndjson', ...all])
    const parts = cursor.split('.')
    const ahead = parts.map((part) => part.replace(/\d+@/, '900000000000000@')).join('.')
    const renumbered = parts.map((part) => part.replace(/@\d+/, '@1')).join('.')
    for (const foreign of [ahead, renumbered]) {
      const refused = await runCommand(['events', 'export', '--format', 'ndjson', '--since', foreign], env(service))
      expect([refused.code, refused.output]).toEqual([2, expect.stringContaining('belongs to another database')])
    }
    const partial = await runCommand(['events', 'export', '--format', 'ndjson', '--since', parts[0]!], env(service))
    expect([partial.code, partial.output]).toEqual([64, expect.stringContaining('does not cover control entries')])
  })

  test('exports events and control entries for viewers, and the audit log only for administrators', async () => {
    const key = await createKey(service, { scope: 'viewer' })
    await run(service, ['events', 'export', '--format', 'ndjson', '--output', join(home, 'viewed')], key)
    const refused = await runCommand(
      ['events', 'export', '--format', 'ndjson', '--include', 'audit'],
      env(service, key),
    )
    expect([refused.code, refused.output]).toEqual([3, expect.stringContaining('viewer')])
  })
})

describe('audit list', () => {
  test('shows changes with the name of a revoked key, and filters them', async () => {
    const id = await newInstance(service, 'audited')
    const name = unique('former colleague')
    const { body } = await service.call<{ key: string; id: string }>('POST', '/api/keys', {
      body: { scope: 'operator', name },
    })
    await kill(service, id, 'Mails twice', body.key)
    await resume(service, id, body.key)
    await service.call('DELETE', `/api/keys/${body.id}`)

    const text = await run(service, ['audit', 'list', '--actor', name])
    expect(text.split('\n')).toEqual([
      expect.stringMatching(new RegExp(`^#\\d+ .*Z {2}${name} \\(${body.id}\\) {2}instance.resume {2}${id} {2}from `)),
      expect.stringMatching(new RegExp(`^#\\d+ .*instance.suspend {2}${id} {2}from \\S+ {2}Mails twice$`)),
      '',
    ])
    const list = async (...args: string[]) =>
      (JSON.parse(await run(service, ['audit', 'list', '--json', ...args])) as { entries: AuditEntry[] }).entries.map(
        ({ action }) => action,
      )
    expect(await list('--actor', body.id, '--action', 'instance.suspend')).toEqual(['instance.suspend'])
    expect(await list('--target', body.id, '--action', 'key.*')).toEqual(['key.revoke', 'key.create'])
    expect(await list('--target', id, '--until', '1h')).toEqual([])
    expect(await list('--target', id, '--since', '1h', '--limit', '1')).toEqual(['instance.resume'])
    expect(await run(service, ['audit', 'list', '--target', id, '--limit', '1'])).toMatch(
      /-- for more, .* --before \d+/,
    )
    expect(await run(service, ['audit', 'list', '--actor', unique('nobody')])).toContain('No audit entry matches.')

    const viewer = await runCommand(['audit', 'list'], env(service, await createKey(service, { scope: 'viewer' })))
    expect(viewer.code).toBe(3)
    const refused = await runCommand(['audit', 'list', '--action', 'kill'], env(service))
    expect([refused.code, refused.output]).toEqual([2, expect.stringContaining('instance.suspend')])
  })
})
