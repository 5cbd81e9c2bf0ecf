import { closeSync, fstatSync, mkdirSync, openSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, isAbsolute, join } from 'node:path'
import { Failure } from '../exit.ts'

const invalidConfiguration = (message: string, options?: ErrorOptions) =>
  new Failure(message, 'configuration', 'configuration', options)

/** Returns the folder of this user's settings. By the XDG Base Directory Specification, a relative path is ignored. */
export function settingsFolder({ XDG_CONFIG_HOME: given }: NodeJS.ProcessEnv): string {
  const folder = given !== undefined && isAbsolute(given) ? given : join(homedir(), '.config')
  return join(folder, 'wardline')
}

/** Reads a file that other users cannot access. Check and read use one descriptor, so the file cannot be swapped. */
export function readPrivately(file: string): string | undefined {
  let descriptor: number
  try {
    descriptor = openSync(file, 'r')
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
    throw invalidConfiguration(`The file ${file} cannot be read (${code}).`, { cause })
  }
  try {
    // Windows has no mode bits, and the user's folder is private there.
    if (process.platform !== 'win32' && (fstatSync(descriptor).mode & 0o077) !== 0) {
      throw invalidConfiguration(
        `Others on this machine can read or change ${file}, which contains keys. Run: chmod 600 ${file}`,
      )
    }
    return readFileSync(descriptor, 'utf8')
  } finally {
    closeSync(descriptor)
  }
}

/** Replaces a whole file, at once; only its owner can read and write it. */
export function writePrivately(file: string, content: unknown): void {
  const draft = `${file}.${process.pid}.part`
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
    writeFileSync(draft, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600, flag: 'wx' })
    renameSync(draft, file)
  } catch (cause) {
    rmSync(draft, { force: true })
    throw invalidConfiguration(`The file ${file} cannot be written (${(cause as NodeJS.ErrnoException).code}).`, {
      cause,
    })
  }
}
