import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { readConfig } from './config/config.ts'
import { openDatabase } from './db/open.ts'
import { openDeps } from './deps.ts'
import { judgeFolder, makePrivate, openPrivateFolder } from './private-files.ts'

let folder: string
let umask: number
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'wardline-files-'))
  // The most permissive umask that a service may start with.
  umask = process.umask(0)
})
afterEach(() => {
  process.umask(umask)
  rmSync(folder, { recursive: true })
})

const mode = (path: string) => (statSync(path).mode & 0o777).toString(8)
const modes = (path: string) => Object.fromEntries(readdirSync(path).map((name) => [name, mode(join(path, name))]))
async function openOnce(env: Record<string, string>, during: () => void): Promise<void> {
  const deps = await openDeps(readConfig({ WARDLINE_LOG_LEVEL: 'silent', ...env }))
  await deps.database.batch([deps.database.db.updateTable('counters').set({ value: 0 }).compile()])
  during()
  await deps.close()
}
const expectPrivate = (path: string) => {
  const found = modes(path)
  expect(new Set(Object.values(found)), JSON.stringify(found)).toEqual(new Set(['600']))
  return Object.keys(found)
}

// Read access to the database reveals every event, and with the secret also the decoys.
describe('the files of the service', () => {
  it('are private from the first startup, whatever the umask', async () => {
    const dataDir = join(folder, 'data')
    await openOnce({ WARDLINE_DATA_DIR: dataDir }, () => {
      expect(expectPrivate(dataDir)).toEqual(
        expect.arrayContaining(['secret', 'wardline.db', 'wardline.db-wal', 'wardline.db-shm']),
      )
      expect(mode(dataDir)).toBe('700')
    })
  })

  it('are private in the folder of DATABASE_URL, which is not changed', async () => {
    const elsewhere = join(folder, 'elsewhere')
    mkdirSync(elsewhere, { mode: 0o755 })
    const env = { WARDLINE_DATA_DIR: join(folder, 'data'), DATABASE_URL: `sqlite:${join(elsewhere, 'x.db')}` }
    await openOnce(env, () => {
      expect(expectPrivate(elsewhere)).toEqual(expect.arrayContaining(['x.db', 'x.db-wal', 'x.db-shm']))
      expect(mode(elsewhere)).toBe('755')
    })
  })

  it('become private if an older version left them readable', async () => {
    const dataDir = join(folder, 'data')
    await openOnce({ WARDLINE_DATA_DIR: dataDir }, () => {})
    writeFileSync(join(dataDir, 'admin-key'), 'x')
    for (const name of readdirSync(dataDir)) chmodSync(join(dataDir, name), 0o644)
    chmodSync(dataDir, 0o755)
    await openOnce({ WARDLINE_DATA_DIR: dataDir }, () => {
      expect(expectPrivate(dataDir)).toContain('admin-key')
      expect(mode(dataDir)).toBe('700')
    })
  })

  it('include backups', async () => {
    const database = await openDatabase(`sqlite:${join(folder, 'x.db')}`, () => {})
    await database.backup(join(folder, 'copy.db'))
    await database.close()
    expect(mode(join(folder, 'copy.db'))).toBe('600')
  })

  it('may be missing', () => {
    expect(() => makePrivate(join(folder, 'nothing'))).not.toThrow()
  })
})

describe('an existing data folder', () => {
  it.each([
    ['that is private', { mode: 0o40700, isOurs: true, holdsFolders: true }, 'keep'],
    ['that others can look into', { mode: 0o40755, isOurs: true, holdsFolders: false }, 'tighten'],
    ['of a group', { mode: 0o40770, isOurs: true, holdsFolders: false }, 'tighten'],
    // A home folder or /srv, which others need.
    ['that holds folders of others', { mode: 0o40755, isOurs: true, holdsFolders: true }, 'refuse'],
    ['such as /tmp', { mode: 0o41777, isOurs: true, holdsFolders: false }, 'refuse'],
    // Created by root and assigned to the service's group, like every Kubernetes volume.
    ['of another user that others can list', { mode: 0o42775, isOurs: false, holdsFolders: false }, 'warn'],
    ['of another user that only the group may enter', { mode: 0o42770, isOurs: false, holdsFolders: true }, 'keep'],
    ['of another user in which others may write', { mode: 0o40777, isOurs: false, holdsFolders: false }, 'refuse'],
  ] as const)('%s: %o → %s', (_title, found, verdict) => {
    expect(judgeFolder(found)).toBe(verdict)
  })

  it('that others use too is refused with the command that fixes it, and not changed', () => {
    const shared = join(folder, "it's shared")
    mkdirSync(join(shared, 'of others'), { recursive: true })
    chmodSync(shared, 0o755)
    expect(() => openPrivateFolder(shared)).toThrow(`run chmod 700 '${folder}/it'\\''s shared' as its owner`)
    expect(mode(shared)).toBe('755')
    // Advice for /tmp, which half of a machine needs.
    chmodSync(shared, 0o1777)
    expect(() => openPrivateFolder(shared)).toThrow(
      `Others on this machine can read the data folder ${shared}: set WARDLINE_DATA_DIR to a folder used only by Wardline.`,
    )
    chmodSync(shared, 0o700)
    expect(openPrivateFolder(shared)).toBeUndefined()
  })
})
