import { realpathSync } from 'node:fs'
import { homedir } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import { plainPath } from '../decoy-paths.ts'

/** Each costs a look at the disk, some 20 microseconds. */
const maxPaths = 64
/** The longest path that Linux opens. */
const maxLength = 4_096
const maxDepth = 4

/**
 * Where the paths in arguments lead when links are followed, as far as that differs from what is written: a decoy is
 * one under any name. A link that is changed after this look goes unnoticed.
 */
export function realPaths(args: unknown, cwd: string): string[] {
  const folder = cwd.length > maxLength ? plainPath(cwd) : cwd
  // Nothing can be opened from there.
  if (folder.length > maxLength) return []
  const found = new Set<string>()
  const seen = new Set<string>()
  for (const text of texts(args, maxDepth)) {
    for (const word of [text, ...text.split(/[\s;|&<>()`"'=]+/)]) {
      if (seen.size >= maxPaths) return [...found]
      if (word === '' || word.length > maxLength || seen.has(word) || /[\0\n]/.test(word)) continue
      seen.add(word)
      // To look at a share of Windows is to log on to whatever host it names.
      if (process.platform === 'win32' && /^[\\/]{2}/.test(word)) continue
      const path = resolve(folder, word.replace(/^~(?=$|[/\\])/, homedir()))
      const real = follow(path)
      if (real !== undefined && real !== path) found.add(real)
    }
  }
  return [...found]
}

function* texts(value: unknown, depth: number): Generator<string> {
  if (typeof value === 'string') yield value
  else if (typeof value === 'object' && value !== null && depth > 0) {
    for (const item of Object.values(value)) yield* texts(item, depth - 1)
  }
}

/** A file that is yet to be made leads to where its folder leads. */
function follow(path: string): string | undefined {
  try {
    return realpathSync.native(path)
  } catch {
    try {
      return join(realpathSync.native(dirname(path)), basename(path))
    } catch {
      return undefined
    }
  }
}
