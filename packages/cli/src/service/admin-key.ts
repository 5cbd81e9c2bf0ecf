import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export interface FoundKey {
  key: string
  /** How a shell reads the same key: the key itself is never printed. */
  shellText: string
  /** Its place, for people. */
  place: string
}

/** A word that a shell takes as it is. */
export function shellWord(text: string): string {
  return /^[\w./:@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}

/** The admin key that the first start stored in the data folder; undefined when it is not there or not readable. */
export function storedAdminKey(dataDir: string): FoundKey | undefined {
  const file = join(dataDir, 'admin-key')
  try {
    const key = readFileSync(file, 'utf8').trim()
    return key === '' ? undefined : { key, shellText: `$(cat ${shellWord(file)})`, place: `in the file ${file}` }
  } catch {
    return undefined
  }
}
