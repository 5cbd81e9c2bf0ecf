import { closeSync, openSync, rmSync, statfsSync, statSync, writeSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** Enough for tens of thousands of kills and resumes with their audit entries. */
export const reserveBytes = 16 * 1024 * 1024
/** With less free space, a control transaction may fail half-way. */
const minFreeBytes = 2 * 1024 * 1024
/** Events are accepted again only with this much space beyond the reserve; otherwise the disk fills up at once. */
const comfortableBytes = 16 * 1024 * 1024
const lookEveryMs = 1_000

function freeBytes(folder: string): number {
  const { bavail, bsize } = statfsSync(folder)
  return bavail * bsize
}

/**
 * Reserves space on the database's disk for control changes, so that an agent cannot escape suspension by filling the
 * disk with events. Once the disk is full, events are refused and the reserve makes room for the kill.
 */
export class DiskReserve {
  readonly #folder: string
  readonly #file: string
  readonly #timer: NodeJS.Timeout
  #isReserved = false
  #full = false

  constructor(databaseFile: string) {
    this.#folder = dirname(databaseFile)
    this.#file = join(this.#folder, 'reserve')
    this.#reserve()
    this.#timer = setInterval(() => this.#tryToLook(), lookEveryMs).unref()
  }

  /** True from the first write that fails on a full disk until there is space again. */
  get isFull(): boolean {
    return this.#full
  }

  noteFull(): void {
    this.#full = true
  }

  /** Deletes the reserve file if a control transaction would not have enough space. */
  makeRoom(): void {
    if (freeBytes(this.#folder) >= minFreeBytes) return
    this.#full = true
    if (!this.#isReserved) return
    rmSync(this.#file, { force: true })
    this.#isReserved = false
  }

  close(): void {
    clearInterval(this.#timer)
  }

  /** Errors are ignored here, because the next check follows in a second. */
  #tryToLook(): void {
    try {
      this.#look()
    } catch {
      rmSync(this.#file, { force: true })
      this.#isReserved = false
    }
  }

  #look(): void {
    if (!this.#full && this.#isReserved) return
    const needed = comfortableBytes + (this.#isReserved ? 0 : reserveBytes)
    if (freeBytes(this.#folder) < needed) return
    this.#reserve()
    this.#full = false
  }

  /** Writes real blocks, because a sparse file would reserve nothing. */
  #reserve(): void {
    const existing = statSync(this.#file, { throwIfNoEntry: false })
    if (existing?.size === reserveBytes) {
      this.#isReserved = true
      return
    }
    if (freeBytes(this.#folder) < reserveBytes + comfortableBytes) return
    const handle = openSync(this.#file, 'w', 0o600)
    try {
      const chunk = Buffer.alloc(64 * 1024)
      for (let written = 0; written < reserveBytes; written += chunk.length) writeSync(handle, chunk)
      this.#isReserved = true
    } finally {
      closeSync(handle)
    }
  }
}
