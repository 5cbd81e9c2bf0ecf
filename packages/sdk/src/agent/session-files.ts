import { createHash } from 'node:crypto'
import {
  closeSync,
  fstatSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { SessionMemory, type StoredMemory } from '@wardline/policy'
import { forgottenMemory } from '../policy/sessions.ts'
import { openRegular, tailOf, withFile } from '../regular-file.ts'

/** A memory has at most 256 KiB. Above this the lines of a file are joined into one. */
const maxBytes = 320 * 1024
/** What is read of a file: more than it has, unless joining fails. */
const maxRead = 4 * maxBytes
const maxSessions = 50
/** Characters of the name of a file, and bytes of the list of those that were removed: 20,000 sessions. */
const nameLength = 32
const maxForgotten = 660_000
/** Joining takes milliseconds: an older lock was left by a process that crashed. */
const maxLockMs = 10_000
/** A decision takes milliseconds as well, and a hook has seconds. */
const maxDecidingMs = 2_000
const maxWaitMs = 700

const codeOf = (fault: unknown): string => (fault as { code?: string }).code ?? 'unknown'

/** Notes beside the memory of a session what this process adds to it, so that others can add it to theirs. */
class SharedMemory extends SessionMemory {
  readonly added: SessionMemory
  hasAdded = false

  constructor(stored: StoredMemory) {
    super(stored)
    this.added = this.emptied()
  }

  override prompt(text: string): void {
    super.prompt(text)
    this.added.prompt(text)
    this.hasAdded = true
  }

  override learn(...given: Parameters<SessionMemory['learn']>): void {
    super.learn(...given)
    this.added.learn(...given)
    this.hasAdded = true
  }

  override count(...given: Parameters<SessionMemory['count']>): void {
    super.count(...given)
    this.added.count(...given)
    this.hasAdded = true
  }
}

/**
 * The memory of one session, shared by the hooks of an agent and its subagents, which run at the same time. A file has one
 * line for each addition: nothing is read, changed and written back, so no addition is lost. What cannot be read counts as
 * untrusted text that was read.
 */
export class SessionFile {
  readonly #folder: string
  readonly #name: string
  readonly #file: string
  #memory: SharedMemory | undefined

  /** Session ids come from the host, so files are named by their hash. */
  constructor(folder: string, sessionId: string | undefined) {
    this.#folder = folder
    this.#name = createHash('sha256')
      .update(sessionId ?? '')
      .digest('hex')
      .slice(0, nameLength)
    this.#file = join(folder, `${this.#name}.jsonl`)
  }

  /**
   * Runs a decision while no other process decides in this session: of calls that are made at the same time, a limit would
   * let each one pass that is still free. Waits for a short time only, and then decides nevertheless.
   */
  exclusively(decide: () => void): void {
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
    const lock = `${this.#file}.deciding`
    const endsAt = performance.now() + maxWaitMs
    let isHeld = tryLock(lock, maxDecidingMs)
    while (!isHeld && performance.now() < endsAt) {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3)
      isHeld = tryLock(lock, maxDecidingMs)
    }
    try {
      decide()
    } finally {
      if (isHeld) rmSync(lock, { force: true })
    }
  }

  /** Reads the memory; begins one if there is none. Throws if the file can be neither read nor created. */
  memory(): SessionMemory {
    this.#memory ??= readMemory(this.#read() ?? this.#begin())
    return this.#memory
  }

  /** Writes what was added to the memory. Throws if that fails. */
  save(): void {
    if (!this.#memory?.hasAdded) return
    const line = `${JSON.stringify(this.#memory.added.stored())}\n`
    let size = 0
    // A file that was replaced while it was written to may lack the line.
    for (let isThere = false; !isThere; ) {
      isThere = withFile(openRegular(this.#file, 'append'), (descriptor) => {
        writeSync(descriptor, line)
        const { ino, size: written } = fstatSync(descriptor)
        size = written
        return statSync(this.#file, { throwIfNoEntry: false })?.ino === ino
      })
    }
    if (size > maxBytes) this.#join()
  }

  #read(): string | undefined {
    try {
      const text = withFile(openRegular(this.#file, 'read'), (descriptor) => tailOf(descriptor, maxRead))
      if (text.includes('\n')) return text
      // A file begins whole. One that was emptied or cut must not read as a session that met nothing.
      withFile(openRegular(this.#file, 'append'), (descriptor) => writeSync(descriptor, '\n'))
      return `${text}\n`
    } catch (fault) {
      if (codeOf(fault) === 'ENOENT') return undefined
      throw fault
    }
  }

  /** Creates the file whole. Of two processes that do so, the first one's file stays. */
  #begin(): string {
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
    this.#removeOldest()
    const next = `${this.#file}.${process.pid}.new`
    rmSync(next, { force: true })
    const memory = this.#isForgotten() ? forgottenMemory() : new SessionMemory()
    writeFileSync(next, `${JSON.stringify(memory.stored())}\n`, { mode: 0o600, flag: 'wx' })
    try {
      linkSync(next, this.#file)
    } catch (fault) {
      // Some file systems have no links.
      if (codeOf(fault) !== 'EEXIST') renameSync(next, this.#file)
    } finally {
      rmSync(next, { force: true })
    }
    return this.#read() ?? ''
  }

  #removeOldest(): void {
    const files = readdirSync(this.#folder).filter((name) => name.endsWith('.jsonl'))
    if (files.length < maxSessions) return
    const times = files.map((name) => {
      const path = join(this.#folder, name)
      return { path, at: statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0 }
    })
    times.sort((one, other) => one.at - other.at)
    const oldest = times.slice(0, files.length - maxSessions + 1)
    this.#noteForgotten(oldest.map(({ path }) => basename(path).slice(0, nameLength)))
    for (const { path } of oldest) rmSync(path, { force: true })
  }

  /** Removed sessions may be continued: they count as those that read untrusted text. */
  #noteForgotten(names: readonly string[]): void {
    const list = join(this.#folder, 'forgotten')
    if ((statSync(list, { throwIfNoEntry: false })?.size ?? 0) > maxForgotten) renameSync(list, `${list}.1`)
    withFile(openRegular(list, 'append'), (descriptor) => writeSync(descriptor, `${names.join('\n')}\n`))
  }

  #isForgotten(): boolean {
    return ['forgotten', 'forgotten.1'].some((name) => {
      try {
        const text = withFile(openRegular(join(this.#folder, name), 'read'), (file) => tailOf(file, 2 * maxForgotten))
        return text.includes(this.#name)
      } catch (fault) {
        // A list that cannot be read may name it.
        return codeOf(fault) !== 'ENOENT'
      }
    })
  }

  /** Replaces the lines by one. Lines that others add meanwhile are added again. */
  #join(): void {
    const lock = `${this.#file}.lock`
    if (!tryLock(lock, maxLockMs)) return
    try {
      withFile(openRegular(this.#file, 'read'), (descriptor) => {
        const text = tailOf(descriptor, maxRead)
        const { size } = fstatSync(descriptor)
        const next = `${this.#file}.${process.pid}.new`
        rmSync(next, { force: true })
        writeFileSync(next, `${JSON.stringify(readMemory(text).stored())}\n`, { mode: 0o600, flag: 'wx' })
        renameSync(next, this.#file)
        const late = fstatSync(descriptor).size - size
        if (late === 0) return
        const lines = tailOf(descriptor, late)
        withFile(openRegular(this.#file, 'append'), (joined) => writeSync(joined, lines))
      })
    } finally {
      rmSync(lock, { force: true })
    }
  }
}

/** Creates a file that no other process has created; removes one that is older. */
function tryLock(lock: string, maxAgeMs: number): boolean {
  try {
    closeSync(openSync(lock, 'wx', 0o600))
    return true
  } catch {
    const since = statSync(lock, { throwIfNoEntry: false })?.mtimeMs ?? Date.now()
    if (Math.abs(Date.now() - since) > maxAgeMs) rmSync(lock, { force: true })
    return false
  }
}

/** Adds up the lines. The last one is left out while another process writes it: its call is not decided yet. */
function readMemory(text: string): SharedMemory {
  const [first, ...others] = text.split('\n').slice(0, -1).map(parsed)
  const memory = new SharedMemory(first as StoredMemory)
  for (const line of others) memory.add(line as StoredMemory)
  return memory
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return null
  }
}
