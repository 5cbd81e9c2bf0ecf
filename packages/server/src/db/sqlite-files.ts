import { dirname, join } from 'node:path'
import { createPrivate, makePrivate } from '../private-files.ts'

/** Makes the files of a database private before it is opened. SQLite gives its log the mode of the database. */
export function openPrivately(file: string): void {
  createPrivate(file)
  for (const suffix of ['-wal', '-shm', '-journal']) makePrivate(file + suffix)
  makePrivate(join(dirname(file), 'reserve'))
}
