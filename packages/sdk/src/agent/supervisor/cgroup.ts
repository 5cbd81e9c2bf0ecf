import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const removeAttempts = 50
const removeEveryMs = 20

/** Returns the folder of the version 2 cgroup of this process; undefined where there is none. */
function ownFolder(): string | undefined {
  try {
    const mount = readFileSync('/proc/self/mountinfo', 'utf8')
      .split('\n')
      .find((line) => / - cgroup2 /.test(line))
      ?.split(' ')
    const path = /^0::(\/.*)$/m.exec(readFileSync('/proc/self/cgroup', 'utf8'))?.[1]
    const [root, folder] = [mount?.[3], mount?.[4]]
    // A path outside of the namespace begins with `/..`.
    if (path === undefined || root !== '/' || folder === undefined || path.startsWith('/..')) return undefined
    return join(folder, path)
  } catch {
    return undefined
  }
}

function pidsIn(folder: string): string[] {
  const below = readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isDirectory())
  return [
    ...readFileSync(join(folder, 'cgroup.procs'), 'utf8').split('\n').filter(Boolean),
    ...below.flatMap(({ name }) => pidsIn(join(folder, name))),
  ]
}

/** Removes a cgroup with those below it. Throws if a process is in one of them. */
function removeFolder(folder: string): void {
  const below = existsSync(folder) ? readdirSync(folder, { withFileTypes: true, recursive: true }) : []
  for (const entry of below.filter((each) => each.isDirectory()).reverse()) {
    rmdirSync(join(entry.parentPath, entry.name))
  }
  rmdirSync(folder)
}

/** What a supervisor has left that was killed together with its watcher. One that waits for a resume is empty as well. */
function isLeftover(folder: string): boolean {
  const pid = /\/wardline-(\d+)-[0-9a-f]{8}$/.exec(folder)?.[1]
  if (pid === undefined || existsSync(`/proc/${pid}`)) return false
  return /^populated 0$/m.test(readFileSync(join(folder, 'cgroup.events'), 'utf8'))
}

function removeLeftovers(home: string): void {
  for (const name of readdirSync(home)) {
    try {
      if (isLeftover(join(home, name))) removeFolder(join(home, name))
    } catch {
      // Another supervisor has removed it.
    }
  }
}

/**
 * A version 2 cgroup for the processes of one run. It is never taken for the whole tree: a process with the rights of the
 * supervisor can move to another one. Each failure leaves the tree to signals.
 */
export class Cgroup {
  readonly folder: string
  readonly #home: string | undefined
  #isUsable = true

  /** `home` is the cgroup of the supervisor. */
  constructor(folder: string, home?: string) {
    this.folder = folder
    this.#home = home
  }

  /** Creates a cgroup below that of this process; undefined where it may not. */
  static create(name: string): Cgroup | undefined {
    const home = ownFolder()
    if (home === undefined) return undefined
    const folder = join(home, name)
    try {
      removeLeftovers(home)
      mkdirSync(folder)
    } catch {
      return undefined
    }
    const cgroup = new Cgroup(folder, home)
    if (existsSync(join(folder, 'cgroup.freeze'))) return cgroup
    void cgroup.remove()
    return undefined
  }

  /** Calls `start` while this process is in the cgroup: what it starts is in it from its first instruction. */
  startInside<Result>(start: () => Result): Result {
    try {
      // A supervisor of another namespace of pids does not see this process, and may have removed an empty cgroup.
      mkdirSync(this.folder, { recursive: true })
    } catch {
      // Then it cannot be used either.
    }
    if (this.#home === undefined || !this.#write('cgroup.procs', String(process.pid))) {
      this.#isUsable = false
      return start()
    }
    try {
      return start()
    } finally {
      try {
        writeFileSync(join(this.#home, 'cgroup.procs'), String(process.pid))
      } catch {
        // Freezing it would freeze this process.
        this.#isUsable = false
      }
    }
  }

  /** Pids of the cgroup and of those below it. */
  pids(): Set<number> {
    try {
      return new Set(this.#isUsable ? pidsIn(this.folder).map(Number) : [])
    } catch {
      return new Set()
    }
  }

  /** Returns whether the processes will be frozen soon; then see `isFrozen`. */
  freeze(): boolean {
    return this.#write('cgroup.freeze', '1')
  }

  thaw(): void {
    this.#write('cgroup.freeze', '0')
  }

  get isFrozen(): boolean {
    try {
      return this.#isUsable && /^frozen 1$/m.test(readFileSync(join(this.folder, 'cgroup.events'), 'utf8'))
    } catch {
      return false
    }
  }

  /** Whether another process has undone `freeze`. */
  get isThawed(): boolean {
    try {
      return readFileSync(join(this.folder, 'cgroup.freeze'), 'utf8').trim() !== '1'
    } catch {
      return true
    }
  }

  /** SIGKILL to all of them at once, frozen or not. */
  kill(): void {
    this.#write('cgroup.kill', '1')
  }

  /** Only once all processes have ended. The kernel takes a moment to notice it. */
  async remove(): Promise<void> {
    for (let attempt = 0; attempt < removeAttempts; attempt++) {
      try {
        removeFolder(this.folder)
        return
      } catch (fault) {
        if ((fault as { code?: string }).code !== 'EBUSY') return
        await sleep(removeEveryMs)
      }
    }
  }

  #write(name: string, text: string): boolean {
    try {
      if (this.#isUsable) writeFileSync(join(this.folder, name), text)
      return this.#isUsable
    } catch {
      return false
    }
  }
}
