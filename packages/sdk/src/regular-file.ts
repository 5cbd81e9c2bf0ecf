import { Buffer } from 'node:buffer'
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'

// Windows has neither.
const { O_RDONLY, O_WRONLY, O_APPEND, O_CREAT, O_NONBLOCK = 0, O_NOFOLLOW = 0 } = constants
const flags = { read: O_RDONLY, append: O_WRONLY | O_APPEND | O_CREAT }

/**
 * Opens a regular file for its owner only. A user who may write to its folder could put a FIFO or a device there, at
 * which an agent would wait for ever, or a link to another file.
 */
export function openRegular(file: string, use: keyof typeof flags, link: 'refuse' | 'follow' = 'refuse'): number {
  const descriptor = openSync(file, flags[use] | O_NONBLOCK | (link === 'follow' ? 0 : O_NOFOLLOW), 0o600)
  if (fstatSync(descriptor).isFile()) return descriptor
  closeSync(descriptor)
  throw Object.assign(new Error(`${file} is not a regular file`), { code: 'not a regular file' })
}

/** The end of a file, at most so many bytes of it. */
export function tailOf(descriptor: number, maxBytes: number): string {
  const { size } = fstatSync(descriptor)
  const bytes = Buffer.alloc(Math.min(size, maxBytes))
  return bytes.subarray(0, readSync(descriptor, bytes, 0, bytes.length, size - bytes.length)).toString()
}

/** Runs `use` on an open file, and closes it after. */
export function withFile<Result>(descriptor: number, use: (descriptor: number) => Result): Result {
  try {
    return use(descriptor)
  } finally {
    closeSync(descriptor)
  }
}
