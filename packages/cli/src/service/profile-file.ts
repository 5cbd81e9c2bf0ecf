import { join } from 'node:path'
import { Failure } from '../exit.ts'
import { readPrivately, settingsFolder, writePrivately } from './private-file.ts'

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

export const profileFile = (env: NodeJS.ProcessEnv): string => join(settingsFolder(env), 'config.json')

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
  writePrivately(file, { profiles: Object.fromEntries(profiles) })
}
