import { constants } from 'node:fs'
import { lstat, open, realpath, stat } from 'node:fs/promises'
import { isAbsolute, join, relative, sep } from 'node:path'
import { ruleLimits } from '@wardline/contract'
import { AppError } from '../../errors.ts'

/** Bytes of a file: of the text of a rule or policy. */
const maxBytes = ruleLimits.textBytes
const tooLong = `The file has more than ${maxBytes / 1024} KiB.`

interface FoundFile {
  name: string
  size: number
  mtimeMs: number
  /** Why the file must not be opened. */
  fault?: string
}

/** Looks at a file without opening it; undefined if it was removed meanwhile. Links are followed, as ConfigMaps need. */
export async function findFile(folder: string, name: string): Promise<FoundFile | undefined> {
  const path = join(folder, name)
  try {
    const found = await stat(path)
    const { size, mtimeMs } = found
    // A FIFO blocks who opens it, and a device never ends.
    if (!found.isFile()) return { name, size, mtimeMs, fault: 'It is not a regular file.' }
    return { name, size, mtimeMs, ...(size > maxBytes ? { fault: tooLong } : {}) }
  } catch (fault) {
    const isGone = await lstat(path).then(
      () => false,
      () => true,
    )
    return isGone ? undefined : { name, size: 0, mtimeMs: 0, fault: fileProblem(fault) }
  }
}

/** Reads at most 64 KiB of a regular file, without waiting: it may have been replaced since it was found. */
export async function readBounded(path: string): Promise<string> {
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    if (!(await file.stat()).isFile()) throw new AppError('invalid', 'It is not a regular file.')
    const bytes = Buffer.alloc(maxBytes + 1)
    let length = 0
    while (length < bytes.length) {
      const { bytesRead } = await file.read(bytes, length)
      if (bytesRead === 0) break
      length += bytesRead
    }
    if (length > maxBytes) throw new AppError('invalid', tooLong)
    return bytes.toString('utf8', 0, length)
  } finally {
    await file.close()
  }
}

const isOutside = (path: string): boolean => path === '..' || path.startsWith(`..${sep}`) || isAbsolute(path)

/** Reads a file by its path in a folder. Throws AppError for one that lies elsewhere, also by a link. */
export async function readWithin(folder: string, name: string): Promise<string> {
  const outside = new AppError('invalid', 'It must be in the folder of the file that names it, or below.')
  if (isAbsolute(name) || isOutside(relative(folder, join(folder, name)))) throw outside
  const [top, path] = await Promise.all([realpath(folder), realpath(join(folder, name))])
  if (isOutside(relative(top, path))) throw outside
  return readBounded(path)
}

/** Returns what changes with a file that `readWithin` reads, or with the links to it. */
export async function stateWithin(folder: string, name: string): Promise<unknown> {
  if (isAbsolute(name) || isOutside(relative(folder, join(folder, name)))) return name
  return [await realpath(join(folder, name)).catch(() => null), await findFile(folder, name)]
}

/** Says why a file cannot be read. */
export function fileProblem(fault: unknown): string {
  if (fault instanceof AppError) return fault.message
  return `The file cannot be read (${(fault as NodeJS.ErrnoException).code ?? 'unknown'}).`
}
