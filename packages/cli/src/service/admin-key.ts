import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export interface FoundKey {
  key: string
  /** Shell expression for the key, because the key itself is never printed. */
  shellText: string
  /** Location for messages. */
  place: string
}

/** Quotes a word for a shell if necessary. */
export function shellWord(text: string): string {
  return /^[\w./:@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}

/** Returns the admin key that the first start stored in the data folder; undefined if it is missing or unreadable. */
export function storedAdminKey(dataDir: string): FoundKey | undefined {
  const file = join(dataDir, 'admin-key')
  try {
    const key = readFileSync(file, 'utf8').trim()
    return key === '' ? undefined : { key, shellText: `$(cat ${shellWord(file)})`, place: `in the file ${file}` }
  } catch {
    return undefined
  }
}
