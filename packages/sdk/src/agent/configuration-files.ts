import { Buffer } from 'node:buffer'
import { fstatSync, opendirSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { openRegular, withFile } from '../regular-file.ts'

/** Settings are a few kilobytes; parsing this much takes about 50 ms. */
const maxFileBytes = 4 * 1024 * 1024
/** Reading and hashing this much takes about 50 ms. */
const maxBytes = 16 * 1024 * 1024
/** Hundreds of skills are usual nowhere; opening this many files takes about 50 ms. */
const maxFiles = 2_000
/** Entries of one folder. A folder with more is one item, because the order of its entries is not fixed. */
const maxEntries = 1_000

/** Bytes of a file, or why they are not known. */
export type FileContent = Buffer | { state: string }

export interface FoundFile {
  /** Path below the folder in which it was looked for. */
  name: string
  content: FileContent
}

const codeOf = (fault: unknown): string => (fault as { code?: string }).code ?? 'unknown'
const isMissing = (fault: unknown): boolean => /^ENO(ENT|TDIR)$/.test(codeOf(fault))

/** Reads files within limits for all of them together. */
export class BoundedReader {
  #bytesLeft = maxBytes
  #filesLeft = maxFiles

  /** Finds the files of a path of which one part may contain `*`. A path that does not exist has none. */
  find(folder: string, path: string): FoundFile[] {
    const star = path.indexOf('*')
    if (star === -1) return this.#read(folder, path)
    const inFolder = path.slice(0, path.lastIndexOf('/', star))
    const [pattern = '', ...below] = path.slice(inFolder.length + 1).split('/')
    const [before = '', after = ''] = pattern.split('*')
    const found = entriesOf(join(folder, inFolder))
    if (typeof found === 'string') return [{ name: path, content: { state: found } }]
    const matching = found.filter((name) => name.startsWith(before) && name.endsWith(after) && !name.startsWith('.'))
    return matching.sort().flatMap((name) => this.#read(folder, [inFolder, name, ...below].join('/')))
  }

  #read(folder: string, name: string): FoundFile[] {
    try {
      // Settings of people are often links into a folder that they keep in git.
      const descriptor = openRegular(join(folder, name), 'read', 'follow')
      return [{ name, content: withFile(descriptor, () => this.#contentOf(descriptor)) }]
    } catch (fault) {
      return isMissing(fault) ? [] : [{ name, content: { state: codeOf(fault) } }]
    }
  }

  #contentOf(descriptor: number): FileContent {
    const { size } = fstatSync(descriptor)
    if (size > maxFileBytes) return { state: 'too large' }
    if (size > this.#bytesLeft || this.#filesLeft === 0) return { state: 'beyond the limit of all files' }
    this.#bytesLeft -= size
    this.#filesLeft--
    const bytes = Buffer.alloc(size)
    return bytes.subarray(0, readSync(descriptor, bytes, 0, size, 0))
  }
}

/** Returns the names in a folder, or why they are not known. */
function entriesOf(folder: string): string[] | string {
  try {
    const open = opendirSync(folder)
    try {
      const names: string[] = []
      for (let entry = open.readSync(); entry; entry = open.readSync()) {
        names.push(entry.name)
        if (names.length > maxEntries) return 'too many entries'
      }
      return names
    } finally {
      open.closeSync()
    }
  } catch (fault) {
    return isMissing(fault) ? [] : codeOf(fault)
  }
}
