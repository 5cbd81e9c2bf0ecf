import { Buffer } from 'node:buffer'
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'

// Windows has neither O_NONBLOCK nor O_NOFOLLOW.
const { O_RDONLY, O_WRONLY, O_APPEND, O_CREAT, O_NONBLOCK = 0, O_NOFOLLOW = 0 } = constants
const flags = { read: O_RDONLY, append: O_WRONLY | O_APPEND | O_CREAT }

/**
 * Opens a regular file; creates it readable only by its owner. Another user who can write to the folder could place a
 * FIFO or device there, which would block the agent forever, or a link to another file.
 */
export function openRegular(file: string, use: keyof typeof flags, link: 'refuse' | 'follow' = 'refuse'): number {
  const descriptor = openSync(file, flags[use] | O_NONBLOCK | (link === 'follow' ? 0 : O_NOFOLLOW), 0o600)
  if (fstatSync(descriptor).isFile()) return descriptor
  closeSync(descriptor)
  throw Object.assign(new Error(`${file} is not a regular file`), { code: 'not a regular file' })
}

/** Reads the last `maxBytes` of a file. */
export function tailOf(descriptor: number, maxBytes: number): string {
  const { size } = fstatSync(descriptor)
  const bytes = Buffer.alloc(Math.min(size, maxBytes))
  return bytes.subarray(0, readSync(descriptor, bytes, 0, bytes.length, size - bytes.length)).toString()
}

/** Runs `use` on an open file and closes the file. */
export function withFile<Result>(descriptor: number, use: (descriptor: number) => Result): Result {
  try {
    return use(descriptor)
  } finally {
    closeSync(descriptor)
  }
}
