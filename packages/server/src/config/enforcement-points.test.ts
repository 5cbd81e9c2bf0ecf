import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { ConfigError } from './config.ts'
import { parsePoints, readPoints } from './enforcement-points.ts'

const secret = `whsec_${'A'.repeat(43)}=`
const good = { name: 'docker', url: 'http://10.0.0.5:9000/stop', secret }

function faultsOf(entries: unknown): string[] {
  try {
    parsePoints(typeof entries === 'string' ? entries : JSON.stringify(entries), 'points.json')
  } catch (fault) {
    expect(fault).toBeInstanceOf(ConfigError)
    return (fault as ConfigError).faults
  }
  return []
}

it('enables both actions of a point by default', () => {
  const [first, second] = parsePoints(
    JSON.stringify([good, { ...good, name: 'vault', tags: ['env:*'], actions: ['suspend'] }]),
    'points.json',
  )
  expect(first).toMatchObject({ name: 'docker', host: '10.0.0.5:9000', actions: ['suspend', 'resume'] })
  expect(first!.tags).toBeUndefined()
  expect(second).toMatchObject({ name: 'vault', tags: ['env:*'], actions: ['suspend'] })
})

it.each<[unknown, string]>([
  ['{', 'points.json is not JSON.'],
  [{}, 'points.json must contain a JSON list of points.'],
  [
    Array.from({ length: 21 }, (_, index) => ({ ...good, name: `p${index}` })),
    'points.json must have at most 20 entries.',
  ],
  [[null], 'entry 1: it must be a JSON object.'],
  [[{ ...good, name: 'No' }], 'entry 1: name may contain only lower-case letters, digits, _, . and -.'],
  [[good, good], 'entry 2 (docker): name is used by another entry.'],
  [[{ name: 'docker', secret }], 'entry 1 (docker): url is required.'],
  [[{ ...good, url: 'ftp://host/' }], 'entry 1 (docker): url must'],
  [[{ ...good, url: 'http://user:pass@host/' }], 'entry 1 (docker): url must not contain a user or a password.'],
  [[{ ...good, secret: 'hunter2' }], 'entry 1 (docker): secret must be whsec_ and the base64 of 24 to 64 bytes.'],
  [[{ ...good, secret: `whsec_${'A'.repeat(33)}` }], 'entry 1 (docker): secret must'],
  [[{ ...good, actions: ['stop'] }], 'entry 1 (docker): actions.0 must be suspend, or resume.'],
  [[{ ...good, instances: ['*'] }], 'entry 1 (docker): instances.0 must'],
  [[{ ...good, tags: ['a'], instances: ['b'] }], 'entry 1 (docker): tags and instances exclude each other.'],
  [[{ ...good, timeout: 5 }], 'entry 1 (docker): timeout is not a known field.'],
])('refuses the entries %j', (entries, sentence) => {
  const [fault] = faultsOf(entries)
  expect(fault).toContain(`WARDLINE_ENFORCEMENT_FILE: ${sentence}`)
  expect(fault).not.toMatch(/hunter2|pass@/)
})

it('refuses a missing file and one that others can read', () => {
  const folder = mkdtempSync(join(tmpdir(), 'wardline-points-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const enforcementFile = join(folder, 'points.json')
  expect(() => readPoints({ enforcementFile })).toThrow(/cannot be read \(ENOENT\)/)
  writeFileSync(enforcementFile, JSON.stringify([good]))
  chmodSync(enforcementFile, 0o640)
  expect(() => readPoints({ enforcementFile })).toThrow(/run chmod 600/)
  chmodSync(enforcementFile, 0o600)
  expect(readPoints({ enforcementFile })).toHaveLength(1)
  expect(readPoints({ enforcementFile: undefined })).toEqual([])
})
