import { execFileSync } from 'node:child_process'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { loadIncidentVerification } from '@wardline/server'
import { afterAll, expect, test } from 'vitest'
import { keyPairOf } from '../packages/server/src/ed25519.ts'
import { adminKey, openTestService } from '../packages/server/src/testing/service.ts'
import { effort } from '../test-servers/effort.ts'
import { python } from '../test-servers/python.ts'
import { forged, partsOf } from './incident-forgery.ts'

const { verifyIncident } = await loadIncidentVerification()
const stored = fileURLToPath(new URL('reference/incident-bundle', import.meta.url))
const clients = fileURLToPath(new URL('../clients/python', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'wardline-test-'))
afterAll(() => rmSync(folder, { recursive: true }))

interface Case {
  file: string
  keys: string | null
}
type Verdict = Record<string, unknown>

/** Reads a folder and a list of cases, and prints a list of verdicts. */
const script = `
import json, sys
from verify_incident import read_keys, verify_bundle
folder, *cases = json.load(sys.stdin)
lists = {name: read_keys(folder + '/' + name) for name in {case['keys'] for case in cases} if name}
print(json.dumps([verify_bundle(folder + '/' + case['file'], lists.get(case['keys'])) for case in cases]))
`

const byPython = (where: string, cases: Case[]): Verdict[] =>
  JSON.parse(
    execFileSync(python!, ['-W', 'error', '-c', script], {
      input: JSON.stringify([where, ...cases]),
      env: { PYTHONPATH: clients, PYTHONDONTWRITEBYTECODE: '1' },
      encoding: 'utf8',
      maxBuffer: 64 * 1024 * 1024,
    }),
  )

async function byService(where: string, cases: Case[]): Promise<Verdict[]> {
  const verdicts: Verdict[] = []
  for (const { file, keys } of cases) {
    const list = keys === null ? undefined : JSON.parse(readFileSync(join(where, keys), 'utf8')).evidence_keys
    const verdict = await verifyIncident(join(where, file), list)
    if (!verdict.ok) verdicts.push(verdict)
    else {
      const { entries: _, ...header } = verdict.manifest
      verdicts.push({ ok: true, key_is_known: verdict.isKnownKey, kid: verdict.kid, rows: verdict.rows, ...header })
    }
  }
  return verdicts
}

/** Where a fault is; the sentences about fields of the manifest differ. */
const placeOf = ({ ok, entry, block, offset }: Verdict) => ({ ok, entry, block, offset })

const vectors: (Case & { is: string; expected: Verdict })[] = JSON.parse(
  readFileSync(join(stored, 'vectors.json'), 'utf8'),
)

test('the test vectors are those of this version', () => {
  const made = join(folder, 'vectors')
  cpSync(stored, made, { recursive: true })
  const program = fileURLToPath(new URL('incident-vectors.ts', import.meta.url))
  execFileSync(process.execPath, ['--conditions=wardline-source', program, made])
  expect(readdirSync(made), 'run "npm run docs" and commit the result').toEqual(readdirSync(stored))
  for (const name of readdirSync(made)) {
    const isSame = readFileSync(join(made, name)).equals(readFileSync(join(stored, name)))
    expect(isSame, `${name} is stale: run "npm run docs" and commit the result`).toBe(true)
  }
  const used = [...vectors.flatMap(({ file, keys }) => [file, keys]), 'vectors.json']
  expect(readdirSync(stored).filter((name) => !used.includes(name))).toEqual([])
})

test('the service judges each test vector as listed', async () => {
  const verdicts = await byService(stored, vectors)
  for (const [index, { file, is, expected }] of vectors.entries()) {
    expect(placeOf(verdicts[index]!), `${file}: ${is}`).toEqual(placeOf(expected))
  }
})

test.skipIf(python === undefined)(
  'the Python verifier judges each test vector as listed, and as the service',
  async () => {
    const verdicts = byPython(stored, vectors)
    const others = await byService(stored, vectors)
    for (const [index, { file, is, expected }] of vectors.entries()) {
      expect(placeOf(verdicts[index]!), `${file}: ${is}`).toEqual(placeOf(expected))
      // The sentences are the same too, but for the fields of the manifest.
      if (file !== 'other-block-size.tar.gz') expect(verdicts[index]).toEqual(others[index])
    }
  },
)

const seed = 20_261_126
const bits = effort(100, 2_000)

function randomNumbers(): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

test.skipIf(python === undefined)(
  `both verifiers judge a long bundle and ${bits} single-bit alterations of it alike`,
  async () => {
    await using service = await openTestService()
    const random = randomNumbers()
    await service.call('POST', '/api/heartbeat', { body: { instance_id: 'agent-1', name: 'agent-1' } })
    const letters = 'abcdefghijklmnopqrstuvwxyzäß秘'
    for (let batch = 0; batch < 2; batch++) {
      const body = Array.from({ length: 500 }, () => ({
        ...{ severity: 'info', source: 'agent-1', event_type: 'tool_call', instance_id: 'agent-1' },
        description: Array.from({ length: 900 }, () => letters[random(letters.length)]).join(''),
      }))
      await service.call('POST', '/api/events/batch', { body })
    }
    await service.call('POST', '/api/heartbeat', { body: { instance_id: 'agent-2', name: 'agent-2' } })
    await service.call('POST', '/api/kill/agent-2', { body: { reason: 'withheld' } })
    await service.call('POST', '/api/kill/agent-1', { body: { reason: 'evidence' } })
    const url = '/api/incidents/export?instance_id=agent-1&from=2026-01-15T11:00:00Z&to=2026-01-15T13:00:00Z'
    const { rawPayload: bundle } = await service.app.inject({ url, headers: { 'x-monitor-key': adminKey } })
    const keys = await service.call<object>('GET', '/.well-known/wardline-keys.json', { key: null })
    writeFileSync(join(folder, 'keys.json'), keys.text)
    const parts = partsOf(bundle)
    expect(parts.manifest.entries.filter(({ name }) => name.startsWith('events/')).length).toBeGreaterThan(1)
    expect(Math.max(...parts.manifest.entries.map(({ packed }) => packed.blocks.length))).toBeGreaterThan(2)

    const cases: Case[] = []
    const add = (file: string, bytes: Buffer, list: string | null = 'keys.json') => {
      writeFileSync(join(folder, file), bytes)
      cases.push({ file, keys: list })
    }
    add('intact', bundle)
    const { privateKey, x: publicKey, kid } = keyPairOf(Buffer.alloc(32, 7))
    // The manifest needs two stored blocks.
    const name = 'n'.repeat(70_000)
    const long = forged(parts, { privateKey, publicKey, kid }, { manifest: (copy) => (copy.exported_by.name = name) })
    add('long-manifest', long, null)
    add('long-manifest', long)
    for (let at = 0; at < 20; at++) add(`cut-${at}`, bundle.subarray(0, random(bundle.length)))
    for (const size of [1, 512, 1_024, 65_536]) add(`appended-${size}`, Buffer.concat([bundle, Buffer.alloc(size)]))
    const starts = [...parts.manifest.entries.map(({ packed }) => packed.offset), parts.manifestAt, parts.signatureAt]
    for (let at = 0; at < bits; at++) {
      const bytes = Buffer.from(bundle)
      // Half of them in the smaller files, the manifest and the signature.
      const start = starts[random(starts.length)]!
      const offset = at % 2 ? random(bundle.length) : Math.min(start + random(600), bundle.length - 1)
      bytes[offset]! ^= 1 << random(8)
      add(`bit-${at}`, bytes)
    }
    const [ours, theirs] = [await byService(folder, cases), byPython(folder, cases)]
    for (const [index, { file }] of cases.entries()) expect(theirs[index], `seed ${seed}, ${file}`).toEqual(ours[index])
    const accepted = cases.filter((_, index) => ours[index]!.ok).map(({ file }) => file)
    expect(accepted).toEqual(['intact', 'long-manifest'])
    expect(ours.filter(({ ok }) => !ok).length).toBeGreaterThan(bits)
  },
)
