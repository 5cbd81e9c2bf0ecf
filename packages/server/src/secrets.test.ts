import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { readConfig } from './config/config.ts'
import { openDeps } from './deps.ts'
import { openDataDir, openSecrets, writePrivateFile } from './secrets.ts'
import { manualClock } from './testing/clock.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'wardline-secrets-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

const config = (env: Record<string, string> = {}) => readConfig({ WARDLINE_DATA_DIR: folder, ...env })
const file = () => join(folder, 'secret')
const mode = (path: string) => (statSync(path).mode & 0o777).toString(8)

describe('the master secret', () => {
  it('is created once, readable by this user only', () => {
    const first = openSecrets(config())
    expect(mode(file())).toBe('600')
    expect(readdirSync(folder)).toEqual(['secret'])
    expect(readFileSync(file(), 'utf8')).toMatch(/^[\w-]{43}\n$/)
    expect(openSecrets(config())).toEqual(first)
  })

  it('derives a separate key for each purpose', () => {
    const { controlKey, decoyKey } = openSecrets(config())
    expect(controlKey).toHaveLength(32)
    expect(controlKey.equals(decoyKey)).toBe(false)
    expect(readFileSync(file(), 'utf8')).not.toContain(controlKey.toString('base64url'))
  })

  // Receivers get the deployment's name, which must not reveal a key or the secret.
  it('derives a stable deployment name that is not part of a key', () => {
    const { deployment, ...keys } = openSecrets(config())
    expect(deployment).toMatch(/^[0-9a-f]{16}$/)
    expect(openSecrets(config()).deployment).toBe(deployment)
    expect(openSecrets(config({ WARDLINE_SECRET: 'a-master-secret-of-the-configuration' })).deployment).not.toBe(
      deployment,
    )
    const texts = Object.values(keys).map((key) => key.toString('hex'))
    expect(new Set(texts).size).toBe(texts.length)
    for (const text of texts) expect(text).not.toContain(deployment)
    expect(Buffer.from(readFileSync(file(), 'utf8'), 'base64url').toString('hex')).not.toContain(deployment)
  })

  it('in the configuration takes precedence and is not written to a file', () => {
    const given = { WARDLINE_SECRET: 'a-master-secret-of-the-configuration' }
    expect(openSecrets(config(given))).toEqual(openSecrets(config(given)))
    expect(() => statSync(file())).toThrow('ENOENT')
  })

  // After a full disk or a crash the file may be empty, and the keys of an empty secret would be public knowledge.
  it.each([
    ['is empty', ''],
    ['is a line feed', '\n'],
    ['was cut', 'abc'],
    ['was cut near its end', `${'a'.repeat(42)}\n`],
    ['holds something else', `${'\u0000'.repeat(43)}\n`],
  ])('is refused if its file %s', (_title, text) => {
    writeFileSync(file(), text)
    expect(() => openSecrets(config())).toThrow(file())
    expect(readFileSync(file(), 'utf8')).toBe(text)
  })

  // With a different secret, decoys would silently never match again.
  it('must be the one with which the database was created', async () => {
    const clock = manualClock()
    const open = (env: Record<string, string>) => openDeps(config({ WARDLINE_LOG_LEVEL: 'silent', ...env }), { clock })
    const right = { WARDLINE_SECRET: 'the-right-secret-of-this-database-123' }
    await (await open(right)).close()
    await expect(open({ WARDLINE_SECRET: 'some-other-secret-for-this-database-1' })).rejects.toThrow(
      'The master secret does not belong to this database',
    )
    await expect(open({})).rejects.toThrow('The master secret does not belong to this database')
    await (await open(right)).close()
  })
})

describe('files in the data folder', () => {
  it('are in a folder that only this user may enter', () => {
    const inner = join(folder, 'a', 'b')
    openDataDir(inner)
    expect(mode(inner)).toBe('700')
  })

  it('become private if they were not', () => {
    writeFileSync(join(folder, 'open'), 'x', { mode: 0o644 })
    writePrivateFile(join(folder, 'open'), 'y')
    expect(mode(join(folder, 'open'))).toBe('600')
    expect(readFileSync(join(folder, 'open'), 'utf8')).toBe('y')
  })
})
