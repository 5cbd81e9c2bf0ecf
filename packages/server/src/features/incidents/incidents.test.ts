import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import { type ControlKeys, type IncidentManifest, type IncidentPreview, incidentLimits } from '@wardline/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { hourMs, isoTime } from '../../clock.ts'
import { keyPairOf } from '../../ed25519.ts'
import { adminKey, openTestService, type TestService } from '../../testing/service.ts'
import { localActor } from '../audit/audit.ts'
import { rotateSigningKey, signEvidence } from '../audit/signing-keys.ts'
import {
  type ArchiveSignature,
  manifestKind,
  manifestMember,
  signatureMember,
  signatureMemberSize,
  tarFile,
} from './archive.ts'
import { verifyIncident } from './verify.ts'

let service: TestService
let folder: string
const bot = 'agent-evidence'
let archive: Buffer
let manifest: IncidentManifest

const file = (bytes: Buffer) => {
  const path = join(folder, 'bundle.tar.gz')
  writeFileSync(path, bytes)
  return path
}
const verify = async (bytes: Buffer, keys?: ControlKeys['evidence_keys']) => verifyIncident(file(bytes), keys)
const range = () => `from=${isoTime(service.clock.now() - hourMs)}&to=${isoTime(service.clock.now() + hourMs)}`
const path = (of = bot) => `/api/incidents/export?instance_id=${of}&${range()}`
const wellKnown = async () =>
  (await service.call<ControlKeys>('GET', '/.well-known/wardline-keys.json', { key: null })).body.evidence_keys

async function exported(url = path()): Promise<Buffer> {
  const { statusCode, rawPayload } = await service.app.inject({ url, headers: { 'x-monitor-key': adminKey } })
  expect(statusCode).toBe(200)
  return rawPayload
}

/** Extracts the files of the archive, like any tar program. */
function unpacked(bytes: Buffer): Map<string, string> {
  const tar = gunzipSync(bytes)
  const files = new Map<string, string>()
  for (let at = 0; tar[at] !== 0; ) {
    const name = tar.toString('utf8', at, at + 100).replace(/\0.*$/s, '')
    const size = Number.parseInt(tar.toString('utf8', at + 124, at + 135), 8)
    files.set(name, tar.toString('utf8', at + 512, at + 512 + size))
    at += 512 + Math.ceil(size / 512) * 512
  }
  return files
}

let decoyKey = ''
beforeAll(async () => {
  service = await openTestService()
  folder = mkdtempSync(join(tmpdir(), 'wardline-test-'))
  await service.call('POST', '/api/heartbeat', { body: { instance_id: bot, name: bot } })
  const decoy = await service.call<{ key: string }>('POST', '/api/honeypots', {
    body: { type: 'api_key', keyType: 'aws', instanceId: bot, label: 'label-of-a-decoy' },
  })
  decoyKey = decoy.body.key
  await service.call('POST', '/api/honeypots', {
    body: { type: 'file_path', path: '/srv/decoy/place', instanceId: bot },
  })
  await service.call('POST', '/api/honeypots/check/key', { body: { key: decoyKey, instanceId: bot } })
  for (let round = 0; round < 3; round++) {
    const events = Array.from({ length: 1_000 }, (_, index) => ({
      severity: 'info',
      source: bot,
      event_type: 'tool_call',
      description: `call ${round} ${index} ${'x'.repeat(400)}`,
      instance_id: bot,
    }))
    await service.call('POST', '/api/events/batch', { body: events })
  }
  await service.call('POST', '/api/heartbeat', { body: { instance_id: 'agent-other', name: 'other' } })
  await service.call('POST', '/api/kill/agent-other', { body: { reason: 'a secret of another agent' } })
  await service.call('POST', `/api/kill/${bot}`, { body: { reason: 'evidence' } })
  await service.call('POST', `/api/resume/${bot}`)
  archive = await exported()
  manifest = JSON.parse(unpacked(archive).get('manifest.json')!)
})
afterAll(async () => {
  rmSync(folder, { recursive: true })
  await service[Symbol.asyncDispose]()
})

describe('a bundle', () => {
  it('is a plain tar.gz with all rows of the agent, and verifies with the published key', async () => {
    const files = unpacked(archive)
    expect([...files.keys()].slice(-2)).toEqual(['manifest.json', 'signature.json'])
    const events = [...files].filter(([name]) => name.startsWith('events/'))
    expect(events.length).toBeGreaterThan(1)
    const rows = events.flatMap(([, text]) => text.trimEnd().split('\n')).map((line) => JSON.parse(line))
    expect(rows.filter(({ event_type }) => event_type === 'tool_call')).toHaveLength(3_000)
    expect(rows.map(({ seq }) => seq)).toEqual(rows.map(({ seq }) => seq).toSorted((a, b) => a - b))
    const verdict = await verify(archive, await wellKnown())
    expect(verdict).toMatchObject({ ok: true, isKnownKey: true })
    expect(verdict.ok && verdict.rows).toMatchObject({
      agent: 1,
      decoy_hits: 1,
      control_changes: 2,
      suspensions: 1,
      events: rows.length,
    })
    expect(await verify(archive)).toMatchObject({ ok: true, isKnownKey: false })
  })

  it('contains no secret, no decoy and nothing of other agents', () => {
    const text = [...unpacked(archive).values()].join('\n')
    for (const hidden of [decoyKey, 'label-of-a-decoy', '/srv/decoy/place', 'a secret of another agent', adminKey]) {
      expect(text.includes(hidden), hidden).toBe(false)
    }
  })

  it('has audit entries of its export and of its signature', async () => {
    const { body } = await service.call<{ entries: { action: string; after: object }[] }>(
      'GET',
      '/api/audit?action=incident.*',
    )
    expect(body.entries.map(({ action }) => action).slice(0, 2)).toEqual(['incident.export', 'incident.sign'])
    expect(body.entries[0]!.after).toMatchObject({ instance_id: bot })
  })

  it('has a preview with counts and a timeline', async () => {
    const { body } = await service.call<IncidentPreview>('GET', `/api/incidents/preview?instance_id=${bot}&${range()}`)
    expect(body.counts).toMatchObject({ decoy_hits: 1, control_changes: 2, suspensions: 1, rule_firings: 0 })
    expect(body.counts.events).toBeGreaterThanOrEqual(3_000)
    expect(body.timeline.map(({ kind }) => kind)).toEqual(expect.arrayContaining(['decoy_hit', 'control_change']))
  })
})

it('a preview counts all control changes, also those that its timeline leaves out', async () => {
  const { timelineRows } = incidentLimits
  await using busy = await openTestService()
  await busy.call('POST', '/api/heartbeat', { body: { instance_id: bot, name: bot } })
  for (let round = 0; round < timelineRows; round++) {
    await busy.call('POST', `/api/kill/${bot}`, { body: { reason: 'again' } })
    await busy.call('POST', `/api/resume/${bot}`)
  }
  const { body } = await busy.call<IncidentPreview>('GET', `/api/incidents/preview?instance_id=${bot}&${range()}`)
  expect(body.counts.control_changes).toBe(2 * timelineRows)
  expect(body.timeline.filter(({ kind }) => kind === 'control_change')).toHaveLength(timelineRows)
})

/** Returns the name of the file to which a byte belongs. */
function entryAt(offset: number): string {
  const found = manifest.entries.find(({ packed }) => offset < packed.offset + packed.size)
  if (found) return found.name
  return offset < archive.length - signatureMemberSize ? 'manifest.json' : 'signature.json'
}

// The bundle would otherwise be signed, and then refused by its own verification.
it('a bundle has no audit row that is outside the chain, and verifies', async () => {
  const at = service.clock.now() - 40 * hourMs
  await service.execute(`insert into audit_log select -5, ${at}, actor, scope, ip, action, 'FORGED', before, after, reason,
    request_id, prev_hash, hash from audit_log where seq = 1`)
  const around = `from=${isoTime(at - hourMs)}&to=${isoTime(at + hourMs)}`
  const url = `/api/incidents/export?instance_id=${bot}&${around}`
  const bytes = await exported(url)
  expect(await verify(bytes)).toMatchObject({ ok: true, rows: { audit: 0 } })
  expect(gunzipSync(bytes).toString()).not.toContain('FORGED')
})

describe('an altered bundle', () => {
  it('is refused with the file and block of the altered byte, for any byte', async () => {
    const seed = 20_261_123
    let state = seed
    const random = (below: number) => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
      return Math.floor((state / 2 ** 32) * below)
    }
    const edges = manifest.entries.flatMap(({ packed }) => [
      packed.offset,
      // Bytes of the gzip header that decompression ignores.
      packed.offset + 4,
      packed.offset + 9,
      packed.offset + packed.size - 1,
    ])
    const tail = archive.length - signatureMemberSize
    const chosen = [
      ...edges,
      tail - 1,
      tail,
      archive.length - 1,
      ...Array.from({ length: 150 }, () => random(archive.length)),
    ]
    for (const offset of chosen) {
      const bytes = Buffer.from(archive)
      bytes[offset]! ^= 1 << random(8)
      const verdict = await verify(bytes)
      expect(verdict, `seed ${seed}, byte ${offset}`).toMatchObject({ ok: false, entry: entryAt(offset) })
      const altered = manifest.entries.find(({ name }) => name === entryAt(offset))
      if (altered) {
        const block = Math.floor((offset - altered.packed.offset) / 65_536)
        expect(verdict, `seed ${seed}, byte ${offset}`).toMatchObject({ block })
      }
    }
  })

  it('is refused if bytes are removed or added, or if files are swapped, duplicated or removed', async () => {
    const { packed } = manifest.entries.at(-1)!
    const [first, second] = manifest.entries
      .slice(-2)
      .map((entry) => archive.subarray(entry.packed.offset, entry.packed.offset + entry.packed.size))
    const rest = archive.subarray(packed.offset + packed.size)
    const before = archive.subarray(0, manifest.entries.at(-2)!.packed.offset)
    const variants = {
      empty: Buffer.alloc(0),
      'cut at the end': archive.subarray(0, -1),
      'cut in the middle': archive.subarray(0, archive.length >> 1),
      'cut at the beginning': archive.subarray(10),
      'an addition at the end': Buffer.concat([archive, gzipSync('x')]),
      'an addition before the manifest': Buffer.concat([
        archive.subarray(0, packed.offset + packed.size),
        gzipSync('x'),
        rest,
      ]),
      'two files swapped': Buffer.concat([before, second!, first!, rest]),
      'a file doubled': Buffer.concat([before, first!, first!, second!, rest]),
      'a file removed': Buffer.concat([before, second!, rest]),
      'no archive': Buffer.from('x'.repeat(10_000)),
    }
    for (const [name, bytes] of Object.entries(variants)) {
      const verdict = await verify(bytes)
      expect(verdict, name).toMatchObject({ ok: false })
      expect(!verdict.ok && verdict.detail, name).toMatch(/\.$/)
    }
  })

  /** Returns a changed archive, signed with another key, as a forger would create it. */
  function forged(change: (manifest: IncidentManifest, files: Buffer[]) => void): Buffer {
    const copy = structuredClone(manifest)
    const files = manifest.entries.map(({ packed }) => archive.subarray(packed.offset, packed.offset + packed.size))
    change(copy, files)
    const text = Buffer.from(JSON.stringify(copy))
    const { privateKey, x, kid } = keyPairOf(Buffer.alloc(32, 7))
    const signed: ArchiveSignature = {
      format: 1,
      algorithm: 'Ed25519',
      kid,
      public_key: x,
      signed_at: copy.exported_at,
      manifest_bytes: text.length,
      signature: signEvidence({ privateKey }, manifestKind, text),
    }
    return Buffer.concat([...files, manifestMember(text, Date.parse(copy.exported_at)), signatureMember(signed)])
  }

  it('with the signature of another key is refused if trusted keys are given', async () => {
    const bytes = forged(() => {})
    expect(await verify(bytes)).toMatchObject({ ok: true, isKnownKey: false })
    expect(await verify(bytes, await wellKnown())).toMatchObject({ ok: false, entry: 'signature.json' })
  })

  // A forger could reuse an earlier signature of the deployment, with its public key, for a changed manifest.
  it('with the signature of another manifest is refused', async () => {
    const signed: ArchiveSignature = JSON.parse(unpacked(archive).get('signature.json')!)
    const text = Buffer.from(JSON.stringify({ ...manifest, instance_id: 'agent-other' }))
    const files = archive.subarray(0, manifest.entries.at(-1)!.packed.offset + manifest.entries.at(-1)!.packed.size)
    const packed = [
      manifestMember(text, Date.parse(signed.signed_at)),
      signatureMember({ ...signed, manifest_bytes: text.length }),
    ]
    for (const keys of [undefined, await wellKnown()]) {
      expect(await verify(Buffer.concat([files, ...packed]), keys)).toMatchObject({ ok: false, entry: 'manifest.json' })
    }
  })

  it('is refused if an audit entry was changed before the archive was signed', async () => {
    const index = manifest.entries.findIndex(({ name }) => name.startsWith('audit/'))
    const { name } = manifest.entries[index]!
    const text = Buffer.from(unpacked(archive).get(name)!.replace('"reason":"evidence"', '"reason":"anything"'))
    const hash = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')
    const bytes = forged(({ entries, exported_at }, files) => {
      const member = gzipSync(tarFile(name, text, Date.parse(exported_at)))
      files[index] = member
      Object.assign(entries[index]!, { size: text.length, sha256: hash(text) })
      Object.assign(entries[index]!.packed, { size: member.length, blocks: [hash(member)] })
      let offset = 0
      for (const { packed } of entries) {
        packed.offset = offset
        offset += packed.size
      }
    })
    const verdict = await verify(bytes)
    expect(verdict).toMatchObject({ ok: false, entry: name })
    expect(!verdict.ok && verdict.detail).toContain('does not match its hash')
  })

  it('is refused despite a valid signature if paths, headers, sizes or the order are forged', async () => {
    const hash = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')
    const at = Date.parse(manifest.exported_at)
    const last = manifest.entries.length - 1
    /** Returns an archive in which the member of the last file is replaced. */
    const replaced = (member: Buffer, more: object = {}) =>
      forged((copy, files) => {
        files[last] = member
        const blocks = []
        for (let start = 0; start < member.length; start += 65_536)
          blocks.push(hash(member.subarray(start, start + 65_536)))
        copy.entries[last] = {
          ...copy.entries[last]!,
          ...more,
          packed: { ...copy.entries[last]!.packed, size: member.length, blocks },
        }
      })
    const name = manifest.entries[last]!.name
    const bomb = gzipSync(Buffer.alloc(100 * 1024 * 1024))
    const attacks = {
      'a path upwards': forged(({ entries }) => Object.assign(entries[0]!, { name: '../../etc/passwd' })),
      'an absolute path': forged(({ entries }) => Object.assign(entries[0]!, { name: '/etc/passwd' })),
      'a path in the header': replaced(gzipSync(tarFile('../x', Buffer.from('a\n'), at)), {
        size: 2,
        rows: 1,
        sha256: hash(Buffer.from('a\n')),
      }),
      'a gzip bomb': replaced(bomb),
      'a gzip bomb with its size': replaced(bomb, { size: 100 * 1024 * 1024 - 512 }),
      'a second file in a member': replaced(
        gzipSync(Buffer.concat([tarFile(name, Buffer.from('a\n'), at), tarFile('more', Buffer.from('b\n'), at)])),
        { size: 2, rows: 1, sha256: hash(Buffer.from('a\n')) },
      ),
      'a huge size': forged(({ entries }) => Object.assign(entries[0]!, { size: 2 ** 40 })),
      'a doubled name': forged(({ entries }) => Object.assign(entries[1]!, { name: entries[0]!.name })),
      'another order': forged(({ entries }) => void entries.reverse()),
      'no entries': forged((copy, files) => {
        copy.entries = []
        files.length = 0
      }),
      'a negative place': forged(({ entries }) => Object.assign(entries[0]!.packed, { offset: -1 })),
      'no manifest': forged((copy) => Object.assign(copy, { entries: 'x' })),
      'another audit chain': forged(({ audit }) => Object.assign(audit.last, { seq: audit.last.seq + 1 })),
    }
    for (const [title, bytes] of Object.entries(attacks))
      expect(await verify(bytes), title).toMatchObject({ ok: false })
  })
})

describe('the signing key', () => {
  it('is rotated with an overlap, and the old key still verifies its archives', async () => {
    const before = await wellKnown()
    service.clock.advance(hourMs)
    const { deps } = service
    const now = service.clock.now()
    await rotateSigningKey(deps, { actor: localActor('cli'), overlapHours: 1, now })
    service.clock.advance(10_000)
    const after = await wellKnown()
    expect(after).toHaveLength(before.length + 1)
    expect(after[1]).toMatchObject({ kid: before[0]!.kid, valid_until: isoTime(now + hourMs) })
    expect(await verify(archive, after)).toMatchObject({ ok: true, isKnownKey: true, kid: before[0]!.kid })
    const later = await exported(path())
    expect(await verify(later, after)).toMatchObject({ ok: true, isKnownKey: true, kid: after[0]!.kid })
    // A verifier that only has the old list does not trust the new key.
    expect(await verify(later, before)).toMatchObject({ ok: false })
    const ended = after.map((key) => ({ ...key, valid_until: isoTime(0) }))
    expect(await verify(archive, ended)).toMatchObject({ ok: false, entry: 'signature.json' })
  })

  it('is the same in another process with the same data folder, and does not appear in the log', async () => {
    const second = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
    try {
      const { body } = await second.call<ControlKeys>('GET', '/.well-known/wardline-keys.json', { key: null })
      expect(body.evidence_keys).toEqual(await wellKnown())
    } finally {
      await second[Symbol.asyncDispose]()
    }
    expect(service.logged.join('\n')).not.toMatch(/PRIVATE KEY/)
  })
})

describe('an export', () => {
  it.each([
    ['instance_id=agent-1&from=2026-01-01T00:00:00Z', 'to is required.'],
    ['instance_id=agent-1&from=x&to=2026-01-01T00:00:00Z', 'from must be an ISO 8601 instant'],
    ['instance_id=AGENT&from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z', 'instance_id may contain only'],
    ['instance_id=agent-1&from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z', 'from must be before to.'],
    ['instance_id=agent-1&from=2025-01-01T00:00:00Z&to=2026-01-01T00:00:00Z', 'at most 92 days apart'],
    ['instance_id=agent-1&from=2026-13-01T00:00:00Z&to=2026-01-01T00:00:00Z', 'from must be an ISO 8601 instant.'],
  ])('with query %s is refused with an error message', async (query, sentence) => {
    const { status, body } = await service.call<{ error: string }>('GET', `/api/incidents/export?${query}`)
    expect(status).toBe(400)
    expect(body.error).toContain(sentence)
  })

  it('of an unknown agent gets 404, and without scope admin 403', async () => {
    expect((await service.call('GET', path('agent-unknown'))).status).toBe(404)
    const { key } = await service.createKey('operator')
    expect((await service.call('GET', path(), { key })).status).toBe(403)
  })

  it('of a deleted agent succeeds and verifies', async () => {
    await service.call('DELETE', '/api/instances/agent-other')
    const bytes = await exported(path('agent-other'))
    const verdict = await verify(bytes)
    expect(verdict).toMatchObject({ ok: true })
  })

  it('gets 429 while another export of the key runs, and ends when the client disconnects', async () => {
    const { key } = await service.createKey('admin')
    const address = await service.app.listen({ host: '127.0.0.1', port: 0 })
    const ask = (signal?: AbortSignal) =>
      fetch(`${address}${path()}`, { headers: { 'x-monitor-key': key }, ...(signal ? { signal } : {}) })
    const leaving = new AbortController()
    const first = await ask(leaving.signal)
    expect(first.status).toBe(200)
    leaving.abort()
    await expect
      .poll(async () => {
        const next = await ask()
        await next.arrayBuffer()
        return next.status
      })
      .toBe(200)
    const statuses = await Promise.all(
      [ask(), ask()].map(async (asked) => {
        const answer = await asked
        await answer.arrayBuffer()
        return answer.status
      }),
    )
    expect(statuses.toSorted()).toEqual([200, 429])
  })
})
