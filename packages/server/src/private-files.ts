import {
  accessSync,
  chmodSync,
  closeSync,
  constants,
  existsSync,
  fchmodSync,
  fstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { ConfigError } from './config.ts'

// Who may read the files decides who may read every event and find out the decoys. Windows has no such modes: there the
// rights of the folder count.
const hasModes = process.platform !== 'win32'

const ownerOnly = { file: 0o600, folder: 0o700 } as const
const others = 0o007
const othersMayWrite = 0o002
const groupAndOthers = 0o077

const quoted = (path: string) => (/^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`)
const isOurs = ({ uid }: { uid: number }) => process.getuid?.() === uid || process.getuid?.() === 0

interface FoundFolder {
  mode: number
  isOurs: boolean
  /** It holds folders: then it was not made for the service alone. */
  holdsFolders: boolean
}

/**
 * The fault of an existing data folder. One that belongs to another user, such as a volume that Kubernetes gives to a
 * group, may be listed by others: every file in it is private. Only the service may create files there.
 */
export function judgeFolder({ mode, isOurs, holdsFolders }: FoundFolder): 'keep' | 'tighten' | 'warn' | 'refuse' {
  if (!isOurs) return mode & othersMayWrite ? 'refuse' : mode & others ? 'warn' : 'keep'
  if ((mode & groupAndOthers) === 0) return 'keep'
  const isShared = holdsFolders || (mode & 0o1000) !== 0
  return isShared ? 'refuse' : 'tighten'
}

/** Creates it with the folders above it. Not `recursive`: that never returns where no folder can be made, as in /proc. */
function makeFolder(folder: string): void {
  try {
    mkdirSync(folder, { mode: ownerOnly.folder })
  } catch (fault) {
    const above = dirname(folder)
    if ((fault as NodeJS.ErrnoException).code !== 'ENOENT' || existsSync(above)) throw fault
    makeFolder(above)
    mkdirSync(folder, { mode: ownerOnly.folder })
  }
}

const folderFaults: Record<string, string> = {
  EEXIST: 'is a file: move it, or set WARDLINE_DATA_DIR to a folder.',
  ENOTDIR: 'is below a file: set WARDLINE_DATA_DIR to another folder.',
  ENOSPC: 'cannot be created: the disk is full.',
}

/** Whether it had to be created. Throws ConfigError with the setting and what is wrong. */
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

/** Creates the data folder for this user only, or makes it so. Returns a warning. Throws ConfigError with the command that helps. */
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
  const fault = `Others on this machine can read the data folder ${folder}: run chmod 700 ${quoted(folder)} as its owner, or set WARDLINE_DATA_DIR to a folder used only by Wardline.`
  if (verdict === 'refuse') throw new ConfigError([fault])
  if (verdict === 'tighten') chmodSync(folder, ownerOnly.folder)
  return verdict === 'warn' ? fault : undefined
}

/** Takes from others what they may do with a file; one that is not there is left alone. Throws ConfigError with the command that helps. */
export function makePrivate(file: string): void {
  const found = hasModes ? statSync(file, { throwIfNoEntry: false }) : undefined
  if (!found || (found.mode & groupAndOthers) === 0) return
  if (isOurs(found)) chmodSync(file, ownerOnly.file)
  else if (found.mode & others) {
    throw new ConfigError([`Others on this machine can read ${file}: run chmod 600 ${quoted(file)} as its owner.`])
  }
}

/** Makes sure that a file is there and private before it is written; what keeps it from being made shows when it is used. */
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
 * The text of a file of the operator that holds secrets, read through one descriptor, so that what was checked is what is
 * read. Throws ConfigError with the command that helps; `setting` names it.
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
