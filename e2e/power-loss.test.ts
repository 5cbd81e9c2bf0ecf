import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, inject, test } from 'vitest'
import { commitBeforeSchema } from '../test-servers/earlier-commit.ts'
import { effort } from '../test-servers/effort.ts'
import { seededChoices } from '../test-servers/seeded-draws.ts'
import type { CallOptions } from './call.ts'
import { runCommand } from './command.ts'
import { commandOf } from './earlier-version.ts'
import { allEvents, anEvent, beat, createKey, createKeyDecoy, newInstance, postEvent, unique } from './fleet.ts'
import { acknowledgedBy, faultsOf, unsyncedAnswers } from './kept-after-cut.ts'
import { LosableDisk } from './power-cuts.ts'
import { type Call, RecordedCalls, recordingFault, type SyncCall } from './recorded-calls.ts'
import { newDataDir, type Service, startService } from './service.ts'
import type { Created } from './shapes.ts'

const reason = recordingFault()
if (reason !== undefined) process.stdout.write(`The tests of power cuts are left out: ${reason}\n`)

const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)

/** More than one checkpoint of the log: its 4,000 pages are 16 MB. */
const bigEvents = 700
const newEvent = () => anEvent({ source: 'power-cut' })
const bigEvent = () => anEvent({ source: 'power-cut', metadata: { filler: 'f'.repeat(15_000) } })

interface Recording {
  root: string
  dataDir: string
  recorded: RecordedCalls
}

/** io_uring would hide calls from the recorder. An empty WARDLINE_RULES_DIR is none: the starter rules are added. */
const settingsOf = (dataDir: string) => ({ WARDLINE_DATA_DIR: dataDir, WARDLINE_RULES_DIR: '', UV_USE_IO_URING: '0' })

/** The service as its first admin calls it, with the key of the first start. */
function asAdmin(service: Service, dataDir: string): Service {
  const key = readFileSync(join(dataDir, 'admin-key'), 'utf8').trim()
  return {
    ...service,
    call: (method, path, options: CallOptions = {}) => service.call(method, path, { key, ...options }),
  }
}

async function send(service: Service, body: ReturnType<typeof anEvent>): Promise<string> {
  const headers = { 'idempotency-key': body.description }
  const answer = await service.call<Created>('POST', '/api/events', { body, headers })
  expect([200, 201], answer.text).toContain(answer.status)
  return answer.body.id
}

async function write(service: Service, bodies: ReturnType<typeof anEvent>[]): Promise<void> {
  for (const body of bodies) await send(service, body)
}

async function toggle(service: Service, agent: string, times: number): Promise<void> {
  await beat(service, agent)
  for (let time = 0; time < times; time++) {
    const path = `/api/${time % 2 === 0 ? 'kill' : 'resume'}/${agent}`
    const answer = await service.call('POST', path, time % 2 === 0 ? { body: { reason: unique('reason') } } : {})
    expect(answer.status, answer.text).toBe(200)
  }
}

async function stop(service: Service, recorded: RecordedCalls): Promise<void> {
  expect(await service.terminate()).toEqual({ code: 0, signal: null })
  await recorded.add()
}

/** Records a first start, work of several clients with checkpoints of the log, a stop, and a second start. */
async function recordWork(): Promise<Recording & { sent: ReturnType<typeof anEvent>[] }> {
  const root = newDataDir()
  const dataDir = join(root, 'made', 'data')
  const recorded = new RecordedCalls(root)
  const service = await startService({ wrapper: recorded.wrapper, withoutKey: true, env: settingsOf(dataDir) })
  const client = asAdmin(service, dataDir)
  const sent: ReturnType<typeof anEvent>[] = []
  const work = () => {
    const events = Array.from({ length: 60 }, newEvent)
    sent.push(...events)
    return Promise.all([
      ...[0, 20, 40].map((from) => write(client, events.slice(from, from + 20))),
      ...[1, 2, 3].map(() => toggle(client, unique('agent'), 9)),
      createKey(client, { scope: 'agent', instances: ['x-*'] }).then(() => createKeyDecoy(client, 'x-1')),
    ])
  }
  await work()
  await Promise.all(Array.from({ length: 7 }, () => write(client, Array.from({ length: bigEvents / 7 }, bigEvent))))
  await work()
  await stop(service, recorded)
  await service.start()
  await work()
  await stop(service, recorded)
  return { root, dataDir, recorded, sent }
}

/** Moments by what happens: an answer leaves, names change, a file is written, a sync begins or has ended; and the end. */
function momentsOf({ calls }: RecordedCalls): Map<string, number[]> {
  const moments = new Map<string, number[]>()
  const add = (kind: string, moment: number) => moments.set(kind, [...(moments.get(kind) ?? []), moment])
  const nameOf = (path: string, isFolder: boolean) =>
    isFolder ? 'folder' : (/-wal$|-journal$|\.db$/.exec(path)?.[0] ?? 'other')
  const kindOf = (call: Call) =>
    'inode' in call ? `${call.kind} ${nameOf(call.inode.path, call.inode.isFolder)}` : call.kind
  for (const call of calls) {
    add(kindOf(call), call.begin)
    if (call.kind === 'sync') add(`after ${kindOf(call)}`, call.end)
  }
  add('end', calls.at(-1)!.end)
  return moments
}

interface Cut {
  index: number
  kind: string
  moment: number
  /** Makes the folder again as this cut leaves it. */
  repeat(): void
}

/** Cuts the power at moments of all kinds alike, in their order. */
function* cutsOf(
  { root, recorded }: Omit<Recording, 'dataDir'>,
  count: number,
  isLost?: (sync: SyncCall) => boolean,
): Generator<Cut> {
  const choices = seededChoices(seed)
  const kinds = [...momentsOf(recorded)]
  const drawn = Array.from({ length: count }, (_, index) => {
    const [kind, moments] = kinds[index % kinds.length]!
    return { kind, moment: choices.pick(moments) }
  })
  const disk = new LosableDisk(recorded, isLost)
  for (const [index, { kind, moment }] of drawn.toSorted((one, other) => one.moment - other.moment).entries()) {
    disk.goTo(moment)
    const repeat = () => disk.cut(root, seededChoices(seed + index))
    repeat()
    yield { index, kind, moment, repeat }
  }
}

/** The service on what a cut left: with everything acknowledged, nothing twice when it is sent again, and it goes on. */
async function startAfterCut(dataDir: string, events: string[], sent: ReturnType<typeof anEvent>[]): Promise<void> {
  const service = await startService({ withoutKey: true, env: settingsOf(dataDir) })
  const client = asAdmin(service, dataDir)
  const before = new Set((await allEvents(client)).map(({ id }) => id))
  expect(events.filter((id) => !before.has(id))).toEqual([])
  await write(client, sent)
  const descriptions = (await allEvents(client)).map(({ description }) => description)
  for (const { description } of sent) expect(descriptions.filter((one) => one === description)).toHaveLength(1)
  const rules = await client.call<{ rules: unknown[] }>('GET', '/api/rules')
  expect(rules.body.rules.length, 'starter rules').toBeGreaterThan(20)
  await toggle(client, await newInstance(client), 2)
  await service.terminate()
  const verified = await runCommand(['audit', 'verify'], { WARDLINE_DATA_DIR: dataDir })
  expect(verified, verified.output).toMatchObject({ code: 0 })
}

// The page cache survives a killed process. What a power cut leaves is computed from the calls that the service made.
describe.skipIf(reason !== undefined)('a power cut', () => {
  test('loses nothing that was acknowledged, from the first start on', async () => {
    const [cuts, starts] = [effort(150, 6000), effort(4, 60)]
    const { sent, ...recording } = await recordWork()
    const { answers, unsynced } = unsyncedAnswers(recording.recorded)
    expect(answers).toBe(sent.length + bigEvents)
    expect(unsynced, 'answers before the sync').toEqual([])
    const file = join(recording.dataDir, 'wardline.db')
    const faulty: unknown[] = []
    for (const { index, kind, moment, repeat } of cutsOf(recording, cuts)) {
      const acknowledged = acknowledgedBy(recording.recorded, moment)
      const faults = faultsOf(file, acknowledged)
      if (faults.length > 0) faulty.push({ index, kind, moment, faults })
      if (faults.length > 0 || index % Math.floor(cuts / starts) !== 5) continue
      repeat()
      await startAfterCut(recording.dataDir, acknowledged.events, sent)
    }
    expect(faulty, `SEED=${seed}`).toEqual([])
    const { length } = recording.recorded.calls
    process.stdout.write(`${cuts} power cuts in ${length} calls, ${starts} with a start (SEED=${seed}): nothing lost\n`)

    // What these cuts would find, if the log of the database were not synced.
    let losses = 0
    for (const { moment } of cutsOf(recording, 30, ({ inode }) => inode.path.endsWith('-wal'))) {
      losses += Math.sign(faultsOf(file, acknowledgedBy(recording.recorded, moment)).length)
    }
    expect(losses, 'cuts that lose something without these syncs').toBeGreaterThan(0)
  })

  // The folder of the secret is not the one that SQLite syncs: the database would outlive its secret.
  test('leaves the secret and the admin key of a database in another folder', async () => {
    const root = newDataDir()
    const [dataDir, file] = [join(root, 'data'), join(root, 'database', 'wardline.db')]
    mkdirSync(join(root, 'database'))
    const recorded = new RecordedCalls(root)
    const env = { ...settingsOf(dataDir), DATABASE_URL: `sqlite:${file}` }
    await stop(await startService({ wrapper: recorded.wrapper, withoutKey: true, env }), recorded)
    const nothing = acknowledgedBy({ calls: [] }, 0)
    const cuts = effort(60, 2000)
    for (const { index, moment } of cutsOf({ root, recorded }, cuts)) {
      expect(faultsOf(file, nothing, dataDir), `cut ${index} at ${moment}, SEED=${seed}`).toEqual([])
    }
    process.stdout.write(`${cuts} power cuts of a first start with the database elsewhere: nothing lost\n`)
  })

  test('leaves a backup whole once the command has said so, and before whole or empty', async () => {
    const service = await startService()
    const ids: string[] = []
    for (let count = 0; count < 20; count++) ids.push(await postEvent(service))
    const root = newDataDir()
    const file = join(root, 'wardline.db')
    const recorded = new RecordedCalls(root)
    const [tracer = '', ...args] = [...recorded.wrapper, process.execPath, inject('command'), 'backup', file]
    const env = { PATH: process.env.PATH ?? '', WARDLINE_DATA_DIR: service.dataDir, UV_USE_IO_URING: '0' }
    const ended = await once(spawn(tracer, args, { env, stdio: 'ignore' }), 'close')
    expect(ended).toEqual([0, null])
    await recorded.add()
    const whole = { ...acknowledgedBy({ calls: [] }, 0), events: ids }
    const empty = [['The database is missing.'], [`lost 20 of the events, such as ${ids[0]}`]]
    const cuts = effort(60, 1000)
    for (const { index, kind, moment } of cutsOf({ root, recorded }, cuts)) {
      const faults = faultsOf(file, whole, service.dataDir)
      const allowed = kind === 'end' ? [[]] : [[], ...empty]
      expect(allowed, `cut ${index} at ${moment}, ${kind}, SEED=${seed}`).toContainEqual(faults)
    }
    await service.stop()
    process.stdout.write(`${cuts} power cuts of a backup: whole or empty, and whole at the end\n`)
  })

  // Bundling the earlier version takes longer than the test.
  const earlier = effort(undefined, commitBeforeSchema())
  if (earlier === undefined) return
  test('loses nothing while an earlier database is migrated', async () => {
    const root = newDataDir()
    const dataDir = join(root, 'data')
    const env = settingsOf(dataDir)
    const before = await startService({ withoutKey: true, env, program: await commandOf(earlier) })
    const client = asAdmin(before, dataDir)
    const agent = unique('agent')
    await toggle(client, agent, 9)
    const events: string[] = []
    for (let count = 0; count < 50; count++) events.push(await send(client, newEvent()))
    await before.terminate()
    const recorded = new RecordedCalls(root)
    await stop(await startService({ wrapper: recorded.wrapper, withoutKey: true, env }), recorded)
    const acknowledged = { events, keys: [], decoys: [], changes: new Map([[agent, 9]]) }
    for (const { index, moment, repeat } of cutsOf({ root, recorded }, 1000)) {
      expect(faultsOf(join(dataDir, 'wardline.db'), acknowledged), `cut ${index} at ${moment}, SEED=${seed}`).toEqual(
        [],
      )
      if (index % 100 !== 50) continue
      repeat()
      await startAfterCut(dataDir, events, [])
    }
  })
})
