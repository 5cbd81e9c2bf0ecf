import {
  accessSync,
  chmodSync,
  closeSync,
  constants,
  existsSync,
  fchmodSync,
  fstatSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { ConfigError } from './config/config.ts'

// Anyone who can read the files can read all events and identify the decoys. Windows has no file modes; there the
// access rights of the folder apply.
const hasModes = process.platform !== 'win32'

const ownerOnly = { file: 0o600, folder: 0o700 } as const
const others = 0o007
const othersMayWrite = 0o002
/** Of a folder in which each deletes only what is theirs. */
const stickyBit = 0o1000
const groupAndOthers = 0o077

const quoted = (path: string) => (/^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`)
const isOurs = ({ uid }: { uid: number }) => process.getuid?.() === uid || process.getuid?.() === 0

interface FoundFolder {
  mode: number
  isOurs: boolean
  /** Whether it contains folders, which means that it is not used by the service alone. */
  holdsFolders: boolean
}

/**
 * Decides what to do about an existing data folder. If it belongs to another user, such as a volume that Kubernetes
 * assigns to a group, others may list it, because every file in it is private. Others must never be able to create
 * files in it.
 */
export function judgeFolder({ mode, isOurs, holdsFolders }: FoundFolder): 'keep' | 'tighten' | 'warn' | 'refuse' {
  if (!isOurs) return mode & othersMayWrite ? 'refuse' : mode & others ? 'warn' : 'keep'
  if ((mode & groupAndOthers) === 0) return 'keep'
  const isShared = holdsFolders || (mode & stickyBit) !== 0
  return isShared ? 'refuse' : 'tighten'
}

/** Faults of a file system that cannot sync a folder, and of a folder that this user may not read. */
const cannotSync = ['EACCES', 'EBADF', 'EINVAL', 'EISDIR', 'ENOTSUP', 'EPERM']

/** Syncs the names in a folder, where that is possible: by POSIX, the sync of a new file does not include its name. */
export function syncFolder(folder: string): void {
  let handle: number | undefined
  try {
    handle = openSync(folder, 'r')
    fsyncSync(handle)
  } catch (fault) {
    if (!cannotSync.includes((fault as NodeJS.ErrnoException).code ?? '')) throw fault
  } finally {
    if (handle !== undefined) closeSync(handle)
  }
}

/** Creates the folder and its parents. `recursive` never returns where folders cannot be created, such as in /proc. */
function makeFolder(folder: string): void {
  const above = dirname(folder)
  try {
    mkdirSync(folder, { mode: ownerOnly.folder })
  } catch (fault) {
    if ((fault as NodeJS.ErrnoException).code !== 'ENOENT' || existsSync(above)) throw fault
    makeFolder(above)
    mkdirSync(folder, { mode: ownerOnly.folder })
  }
  syncFolder(above)
}

const folderFaults: Record<string, string> = {
  EEXIST: 'is a file: move it, or set WARDLINE_DATA_DIR to a folder.',
  ENOTDIR: 'is below a file: set WARDLINE_DATA_DIR to another folder.',
  ENOSPC: 'cannot be created: the disk is full.',
}

/** Creates the folder if it is missing; true if it did. Throws ConfigError with the problem and the setting. */
function ensureFolder(folder: string): boolean {
  try {
    const isThere = statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true
    if (!isThere) makeFolder(folder)
    accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK)
    return !isThere
  } catch (cause) {
    const { code = '' } = cause as NodeJS.ErrnoException
    const fault =
      folderFaults[code] ??
      `cannot be written (${code}): give this user write access, or set WARDLINE_DATA_DIR to another folder.`
    throw new ConfigError([`The data folder ${folder} ${fault}`])
  }
}

/** Creates the data folder, or makes it private to this user. Returns a warning. Throws ConfigError with a fix. */
export function openPrivateFolder(folder: string): string | undefined {
  const isCreated = ensureFolder(folder)
  if (!hasModes) return undefined
  const { mode, uid } = statSync(folder)
  const found = { mode, isOurs: isOurs({ uid }), holdsFolders: false }
  if (!isCreated && mode & groupAndOthers) {
    const entries = readdirSync(folder, { withFileTypes: true })
    found.holdsFolders = entries.some((entry) => entry.isDirectory() && entry.name !== 'lost+found')
  }
  const verdict = judgeFolder(found)
  // Others work in such a folder, above all in /tmp: without access to it, half of the machine fails.
  const remedy = mode & stickyBit ? '' : `run chmod 700 ${quoted(folder)} as its owner, or `
  const fault = `Others on this machine can read the data folder ${folder}: ${remedy}set WARDLINE_DATA_DIR to a folder used only by Wardline.`
  if (verdict === 'refuse') throw new ConfigError([fault])
  if (verdict === 'tighten') chmodSync(folder, ownerOnly.folder)
  return verdict === 'warn' ? fault : undefined
}

/** Removes others' access to a file, if the file exists. Throws ConfigError with the command that fixes it. */
export function makePrivate(file: string): void {
  const found = hasModes ? statSync(file, { throwIfNoEntry: false }) : undefined
  if (!found || (found.mode & groupAndOthers) === 0) return
  if (isOurs(found)) chmodSync(file, ownerOnly.file)
  else if (found.mode & others) {
    throw new ConfigError([`Others on this machine can read ${file}: run chmod 600 ${quoted(file)} as its owner.`])
  }
}

/** Creates a private file if it is missing. If that fails, the error appears when the file is used. */
export function createPrivate(file: string): void {
  try {
    const handle = openSync(file, 'ax', ownerOnly.file)
    if (hasModes) fchmodSync(handle, ownerOnly.file)
    closeSync(handle)
  } catch {
    makePrivate(file)
  }
}

/**
 * Reads an operator's file with secrets. One descriptor serves the mode check and the read, so the file cannot be
 * swapped in between. Throws ConfigError with the command that fixes it, naming `setting`.
 */
export function readPrivateFile(file: string, setting: string): string {
  let handle: number
  try {
    handle = openSync(file, 'r')
  } catch (cause) {
    throw new ConfigError([`${setting}: ${file} cannot be read (${(cause as NodeJS.ErrnoException).code}).`])
  }
  try {
    if (hasModes && (fstatSync(handle).mode & groupAndOthers) !== 0) {
      throw new ConfigError([
        `${setting}: others on this machine can read ${file}, which contains secrets: run chmod 600 ${quoted(file)}.`,
      ])
    }
    return readFileSync(handle, 'utf8')
  } finally {
    closeSync(handle)
  }
}
