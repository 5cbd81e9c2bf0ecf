import { realpathSync } from 'node:fs'
import { homedir } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import { plainPath } from '../decoy-paths.ts'

/** Maximum paths to resolve. Each costs a disk access of about 20 microseconds. */
const maxPaths = 64
/** Maximum path length on Linux. */
const maxLength = 4_096
const maxDepth = 4

/**
 * Returns the targets of paths in the arguments with links resolved, where they differ from the path: a link must not
 * hide a decoy. A link changed after this check goes unnoticed. Without a working folder only absolute paths lead anywhere.
 */
export function realPaths(args: unknown, cwd = '/'): string[] {
  const folder = cwd.length > maxLength ? plainPath(cwd) : cwd
  // No file can be opened from a folder with such a long path.
  if (folder.length > maxLength) return []
  const found = new Set<string>()
  const seen = new Set<string>()
  for (const text of texts(args, maxDepth)) {
    for (const word of [text, ...text.split(/[\s;|&<>()`"'=]+/)]) {
      if (seen.size >= maxPaths) return [...found]
      if (word === '' || word.length > maxLength || seen.has(word) || /[\0\n]/.test(word)) continue
      seen.add(word)
      // Resolving a Windows share would log on to any host that the path names.
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

/** Resolves a path. For a file that does not exist yet, resolves its folder. */
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
