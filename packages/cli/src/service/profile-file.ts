import { closeSync, fstatSync, mkdirSync, openSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, isAbsolute, join } from 'node:path'
import { Failure } from '../exit.ts'

/** Service that the user has stored under a name. */
export interface Profile {
  url: string
  key?: string
}
export type Profiles = ReadonlyMap<string, Profile>

/** Profile that is used by default. */
export const defaultProfile = 'default'

const invalidConfiguration = (message: string, options?: ErrorOptions) =>
  new Failure(message, 'configuration', 'configuration', options)

/** Returns the path. By the XDG Base Directory Specification, a relative XDG_CONFIG_HOME is ignored. */
export function profileFile(env: NodeJS.ProcessEnv): string {
  const given = env.XDG_CONFIG_HOME
  const folder = given !== undefined && isAbsolute(given) ? given : join(homedir(), '.config')
  return join(folder, 'wardline', 'config.json')
}

/** Reads a file that other users cannot access. Check and read use one descriptor, so the file cannot be swapped. */
function readPrivately(file: string): string | undefined {
  let descriptor: number
  try {
    descriptor = openSync(file, 'r')
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
    throw invalidConfiguration(`The profile file ${file} cannot be read (${code}).`, { cause })
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

function parseProfile(name: string, value: unknown, file: string): Profile {
  const { url, key } = (value ?? {}) as { url?: unknown; key?: unknown }
  if (typeof url !== 'string' || (key !== undefined && typeof key !== 'string')) {
    throw invalidConfiguration(
      `The profile ${name} of ${file} must be { "url": "…", "key": "…" }; the key may be left out.`,
    )
  }
  return key === undefined ? { url } : { url, key }
}

/** Returns profiles by name; empty without a file. Throws Failure if other users can access it or it is invalid. */
export function readProfiles(file: string): Profiles {
  const text = readPrivately(file)
  if (text === undefined) return new Map()
  let content: unknown
  try {
    content = JSON.parse(text)
  } catch (cause) {
    // The cause would quote the text, which contains keys.
    throw invalidConfiguration(
      `The profile file ${file} is not JSON: correct it, or remove it and create the profiles again.`,
      {
        cause: (cause as Error).name,
      },
    )
  }
  const { profiles } = (content ?? {}) as { profiles?: unknown }
  if (typeof profiles !== 'object' || profiles === null || Array.isArray(profiles)) {
    throw invalidConfiguration(`The profile file ${file} must be { "profiles": { "<name>": { "url": "…" } } }.`)
  }
  return new Map(Object.entries(profiles).map(([name, value]) => [name, parseProfile(name, value, file)]))
}

/** Replaces the whole file; only its owner can read and write it. */
export function writeProfiles(file: string, profiles: Profiles): void {
  const text = `${JSON.stringify({ profiles: Object.fromEntries(profiles) }, null, 2)}\n`
  const draft = `${file}.${process.pid}.part`
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
    writeFileSync(draft, text, { mode: 0o600, flag: 'wx' })
    renameSync(draft, file)
  } catch (cause) {
    rmSync(draft, { force: true })
    throw invalidConfiguration(
      `The profile file ${file} cannot be written (${(cause as NodeJS.ErrnoException).code}).`,
      { cause },
    )
  }
}
