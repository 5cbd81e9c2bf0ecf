import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import type { seededChoices } from '../test-servers/seeded-draws.ts'
import type { Call, FileCall, Inode, NameCall, RecordedCalls, SyncCall } from './recorded-calls.ts'

type Choices = ReturnType<typeof seededChoices>

/** Bytes of a file. Writes beyond the end fill up with zeros. */
class Content {
  #bytes: Buffer
  length: number

  constructor(bytes: Buffer) {
    this.#bytes = bytes
    this.length = bytes.length
  }

  bytes(): Buffer {
    return this.#bytes.subarray(0, this.length)
  }

  write(offset: number, data: Buffer): void {
    const end = offset + data.length
    if (end > this.#bytes.length) this.#bytes = Buffer.concat([this.#bytes], Math.max(end, 2 * this.#bytes.length))
    data.copy(this.#bytes, offset)
    this.length = Math.max(this.length, end)
  }

  truncate(length: number): void {
    if (length > this.length) this.write(this.length, Buffer.alloc(length - this.length))
    this.#bytes.fill(0, length, this.length)
    this.length = length
  }

  apply(call: FileCall): void {
    if (call.kind === 'write') this.write(call.offset, call.data)
    else this.truncate(call.length)
  }
}

interface File {
  /** What is on the disk for certain. */
  synced: Content
  pending: FileCall[]
}

interface Names {
  synced: Map<string, Inode>
  pending: NameCall[]
}

/** Whether a call was over when a sync began, which therefore includes it. */
const isBefore = (sync: SyncCall) => (call: Call) => call.end < sync.begin

/**
 * A disk with a cache that is lost with the power. What a file's fsync confirmed is there, the names in a folder after
 * the folder's own fsync, as POSIX has it: file systems keep more. Of everything else, each sector has the content of
 * some moment since.
 */
export class LosableDisk {
  readonly #calls: readonly Call[]
  readonly #syncs: SyncCall[]
  readonly #files = new Map<Inode, File>()
  readonly #folders = new Map<string, Names>()
  #taken = 0
  #synced = 0

  /** `isLost`: a sync that the disk confirms and does not make. */
  constructor({ calls, first }: RecordedCalls, isLost: (sync: SyncCall) => boolean = () => false) {
    this.#calls = calls
    this.#syncs = calls.filter((call) => call.kind === 'sync').filter((sync) => !isLost(sync))
    this.#syncs.sort((one, other) => one.end - other.end)
    for (const [path, inode] of first) {
      this.#namesIn(dirname(path)).synced.set(path, inode)
      this.#file(inode)
    }
  }

  #file(inode: Inode): File {
    const file = this.#files.get(inode) ?? { synced: new Content(Buffer.from(inode.content)), pending: [] }
    this.#files.set(inode, file)
    return file
  }

  #namesIn(folder: string): Names {
    const names = this.#folders.get(folder) ?? { synced: new Map(), pending: [] }
    this.#folders.set(folder, names)
    return names
  }

  /** Goes on to a moment of the recording, never back. */
  goTo(moment: number): void {
    for (;;) {
      const call = this.#calls[this.#taken]
      const sync = this.#syncs[this.#synced]
      if (sync && sync.end <= moment && sync.end < (call?.begin ?? Number.POSITIVE_INFINITY)) {
        this.#sync(sync)
        this.#synced += 1
      } else if (call && call.begin <= moment) {
        if (call.kind === 'names') this.#namesIn(call.folder).pending.push(call)
        if (call.kind === 'write' || call.kind === 'truncate') this.#file(call.inode).pending.push(call)
        this.#taken += 1
      } else return
    }
  }

  #sync(sync: SyncCall): void {
    const includes = isBefore(sync)
    if (sync.inode.isFolder) {
      const names = this.#namesIn(sync.inode.path)
      for (const call of names.pending.filter(includes)) change(names.synced, call)
      names.pending = names.pending.filter((call) => !includes(call))
    } else {
      const file = this.#file(sync.inode)
      for (const call of file.pending.filter(includes)) file.synced.apply(call)
      file.pending = file.pending.filter((call) => !includes(call))
    }
  }

  /** Cuts the power: makes the root again, as a disk might have it now. */
  cut(root: string, choices: Choices): void {
    rmSync(root, { recursive: true, force: true })
    mkdirSync(root)
    const contents = new Map<Inode, Buffer>()
    const make = (folder: string) => {
      for (const [path, inode] of namesAfter(this.#namesIn(folder), choices)) {
        if (path === root) continue
        const content = contents.get(inode) ?? contentAfter(this.#file(inode), choices)
        contents.set(inode, content)
        if (inode.isFolder) mkdirSync(path, { mode: 0o700 })
        else writeFileSync(path, content, { mode: 0o600 })
        if (inode.isFolder) make(path)
      }
    }
    make(root)
  }
}

function change(names: Map<string, Inode>, call: NameCall): void {
  for (const [path, inode] of call.names) {
    if (inode) names.set(path, inode)
    else names.delete(path)
  }
}

function namesAfter({ synced, pending }: Names, { chance, between, pick }: Choices): Map<string, Inode> {
  const names = new Map(synced)
  // With a journal the first changes are there, without one any.
  const kept = pick([0, 1, pending.length, between(0, pending.length)])
  const isOrdered = chance(0.5)
  for (const [index, call] of pending.entries()) if (isOrdered ? index < kept : chance(0.5)) change(names, call)
  return names
}

function contentAfter({ synced, pending }: File, choices: Choices): Buffer {
  const content = new Content(Buffer.from(synced.bytes()))
  const fate = choices.pick(['lost', 'kept', 'in order', 'torn', 'torn', 'torn'] as const)
  if (fate === 'lost') return content.bytes()
  const last = fate === 'in order' ? choices.between(0, pending.length) : pending.length
  const isTorn = fate === 'torn'
  for (const call of pending.slice(0, isTorn ? 0 : last)) content.apply(call)
  const next = pending[last]
  if (fate === 'in order' && next) tear(content, [next], choices)
  if (isTorn) tear(content, pending, choices)
  return content.bytes()
}

/**
 * Each sector has one of its states: the cache collects the writes to it, so that a later one is never there without
 * the earlier ones. The new length may be on the disk before the data, with zeros or what was there before.
 */
function tear(content: Content, pending: FileCall[], { chance, between, pick }: Choices): void {
  const sectorBytes = pick([512, 4096])
  const keeps = pick([0.1, 0.5, 0.9])
  const writesOf = new Map<number, number>()
  const sectors = function* (call: FileCall & { kind: 'write' }) {
    const end = call.offset + call.data.length
    for (let sector = Math.floor(call.offset / sectorBytes); sector * sectorBytes < end; sector++) yield sector
  }
  const writes = pending.filter((call) => call.kind === 'write')
  for (const call of writes) for (const sector of sectors(call)) writesOf.set(sector, (writesOf.get(sector) ?? 0) + 1)
  for (const [sector, count] of writesOf) writesOf.set(sector, chance(keeps) ? count : between(0, count - 1))
  const end = Math.max(content.length, ...writes.map(({ offset, data }) => offset + data.length))
  if (chance(0.5)) content.write(content.length, Buffer.alloc(end - content.length, chance(0.5) ? 0 : 'stale'))
  for (const call of pending) {
    if (call.kind === 'truncate') {
      if (chance(keeps)) content.truncate(call.length)
      continue
    }
    for (const sector of sectors(call)) {
      const left = writesOf.get(sector)!
      if (left === 0) continue
      writesOf.set(sector, left - 1)
      const from = Math.max(sector * sectorBytes, call.offset)
      const to = (sector + 1) * sectorBytes
      content.write(from, call.data.subarray(from - call.offset, to - call.offset))
    }
  }
}
