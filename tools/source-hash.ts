import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))

/** A hash of every file in the folders but tests, and of the files. Paths are relative to the repository. */
export function hashOfSources(folders: string[], files: string[]): string {
  const hash = createHash('sha256')
  const inFolder = (folder: string) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => /\.\w+$/.test(name) && !name.endsWith('.test.ts'))
      .sort()
      .map((name) => `${folder}/${name}`)
  for (const path of [...folders.flatMap(inFolder), ...files])
    hash
      .update(`${path}\0`)
      .update(readFileSync(join(root, path)))
      .update('\0')
  return hash.digest('hex')
}
