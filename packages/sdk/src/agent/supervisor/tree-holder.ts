import { setTimeout as sleep } from 'node:timers/promises'
import type { Cgroup } from './cgroup.ts'
import type { Process, ProcessTable } from './process-table.ts'
import type { ProcessTree } from './process-tree.ts'

export interface Held {
  processes: number
  /** Processes among them that run on. */
  left: number
}

/** By then even a process that waits for a disk has noticed the signal, on a machine that is not overloaded. */
const holdWithinMs = 2_000
const killWithinMs = 5_000
const sweepEveryMs = 2
const lookEveryMs = 20

/** Stops, continues and ends the processes of a tree. */
export class TreeHolder {
  readonly #tree: ProcessTree
  readonly #table: ProcessTable
  readonly #cgroup: Cgroup | undefined
  #isFreezing = false
  /** Whether the cgroup was frozen at least once since `hold`. */
  #wasFrozen = false
  /** Processes that were stopped before the tree was held; undefined while it is not. */
  #before: Map<number, string> | undefined
  /** Processes that this process may not signal, such as those of another user. */
  readonly #unreachable = new Set<number>()

  constructor(tree: ProcessTree, table: ProcessTable, cgroup: Cgroup | undefined) {
    this.#tree = tree
    this.#table = table
    this.#cgroup = cgroup
  }

  /** Resolves once no process of the tree runs, or none that can be stopped in time; undefined once it is not current. */
  async hold(isCurrent: () => boolean): Promise<Held | undefined> {
    const until = performance.now() + holdWithinMs
    this.#isFreezing = this.#cgroup?.freeze() === true
    // Twice: a process that has just ended may have started one that the first sweep did not list yet.
    for (let clean = 0; ; ) {
      const held = this.keep()
      const { isSettled } = this.#tree
      clean = held.left <= this.#unreachable.size && isSettled ? clean + 1 : 0
      if (clean === 2) return held
      // A tree that still changes runs, although no sweep was in time to see which process.
      if (performance.now() > until) return { ...held, left: Math.max(held.left, isSettled ? 0 : 1) }
      if (!isCurrent()) return undefined
      await sleep(clean > 0 ? 0 : sweepEveryMs)
    }
  }

  /** Whether more attempts can hold more of the tree than `left` says. */
  canHoldMore({ left }: Held): boolean {
    return left > this.#unreachable.size
  }

  /** Stops what runs in a held tree, such as a process that another one has continued. */
  keep(): Held {
    const members = this.#tree.sweep((each) => {
      if (!this.#isFreezing && this.#mayRun(each)) this.#signal(each, 'SIGSTOP')
    })
    if (this.#before === undefined) {
      const stopped = members.filter(({ state }) => state === 'T')
      this.#before = new Map(stopped.map(({ pid, started }) => [pid, started]))
    }
    const inCgroup = this.#isFreezing ? (this.#cgroup?.pids() ?? new Set()) : new Set()
    const isFrozen = this.#isFreezing && this.#isCgroupFrozen()
    const running = members.filter((each) => !(isFrozen && inCgroup.has(each.pid)) && this.#mayRun(each))
    this.#signalAll(
      running.filter(({ pid }) => !inCgroup.has(pid)),
      'SIGSTOP',
    )
    // A process in this state takes the signal before it executes another instruction.
    return { processes: members.length, left: running.filter(({ state }) => state !== 'D').length }
  }

  /** Freezes it again if another process has thawed it. It is not frozen while one of its processes is being killed. */
  #isCgroupFrozen(): boolean {
    const cgroup = this.#cgroup!
    if (cgroup.isFrozen) this.#wasFrozen = true
    else if (cgroup.isThawed) {
      this.#wasFrozen = false
      cgroup.freeze()
    }
    return this.#wasFrozen
  }

  #mayRun({ state, pid, threads }: Process): boolean {
    if (state === 'T' || state === 't') return false
    return state !== 'Z' || (threads > 1 && this.#table.hasRunningThread(pid))
  }

  /** Continues what `hold` stopped, children first: a shell that finds a stopped child takes its terminal away. */
  release(): void {
    const before = this.#before
    if (before === undefined) return
    this.#before = undefined
    this.#isFreezing = false
    this.#wasFrozen = false
    this.#cgroup?.thaw()
    for (const each of this.#tree.sweep().toReversed()) {
      if (before.get(each.pid) !== each.started) this.#signal(each, 'SIGCONT')
    }
  }

  /**
   * SIGTERM to all processes, and SIGKILL to those that are left after the grace, or once `isHurried`. Those that were
   * held are continued for it.
   */
  async end(graceMs: number, isHurried: () => boolean): Promise<Held> {
    const members = this.#tree.sweep()
    for (const each of members) this.#signal(each, 'SIGTERM')
    this.release()
    const until = performance.now() + graceMs
    while (this.#tree.sweep().length > 0 && performance.now() < until && !isHurried()) await sleep(lookEveryMs)
    const { processes, left } = await this.kill()
    return { processes: Math.max(processes, members.length), left }
  }

  /** Ends all processes, without continuing those that are held. */
  async kill(): Promise<Held> {
    const until = performance.now() + killWithinMs
    const killed = new Set<number>()
    for (let clean = 0; ; ) {
      this.#cgroup?.kill()
      const members = this.#tree.sweep((each) => this.#signal(each, 'SIGKILL'))
      this.#signalAll(members, 'SIGKILL')
      for (const { pid } of members) killed.add(pid)
      clean = members.length <= this.#unreachable.size && this.#tree.isSettled ? clean + 1 : 0
      if (clean === 2 || performance.now() > until) return { processes: killed.size, left: members.length }
      await sleep(sweepEveryMs)
    }
  }

  /** Counts the processes of the tree, and those that cannot be signalled. */
  check(): { processes: number; unreachable: number } {
    const members = this.#tree.sweep()
    this.#unreachable.clear()
    for (const each of members) this.#signal(each, 0)
    return { processes: members.length, unreachable: this.#unreachable.size }
  }

  /** Whole groups first: a signal to a group also reaches what its processes start at this moment. */
  #signalAll(processes: readonly Process[], signal: 'SIGSTOP' | 'SIGKILL'): void {
    this.#unreachable.clear()
    const groups = new Map(
      processes.filter(({ group }) => this.#tree.ownsGroup(group)).map((each) => [each.group, each]),
    )
    for (const [group, member] of groups) {
      if (this.#table.isSame(member)) send(-group, signal)
    }
    for (const each of processes) this.#signal(each, signal)
  }

  #signal(each: Process, signal: NodeJS.Signals | 0): void {
    // The pid may belong to another process by now.
    if (!this.#table.isSame(each)) return
    if (send(each.pid, signal) === 'refused') this.#unreachable.add(each.pid)
  }
}

function send(pid: number, signal: NodeJS.Signals | 0): 'sent' | 'ended' | 'refused' {
  try {
    process.kill(pid, signal)
    return 'sent'
  } catch (fault) {
    return (fault as { code?: string }).code === 'EPERM' ? 'refused' : 'ended'
  }
}
