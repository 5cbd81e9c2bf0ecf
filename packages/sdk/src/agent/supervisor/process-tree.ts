import type { Cgroup } from './cgroup.ts'
import type { Process, ProcessTable } from './process-table.ts'

/** Name of the variable that marks the environment of all processes of one run. */
export const tokenName = 'WARDLINE_SUPERVISED'

/** The process that starts the tree. The tree leaves its group and session alone. */
type Origin = Pick<Process, 'pid' | 'group' | 'session'>

/** What a tree remembers of earlier sweeps. */
export interface Knowledge {
  token: string
  origin: Origin
  /** Start times by pid. */
  known: [pid: number, started: string][]
  groups: number[]
  sessions: number[]
}

interface TreeOptions {
  table: ProcessTable
  token: string
  cgroup: Cgroup | undefined
  origin: Origin
}

const keyOf = ({ pid, started }: Process): string => `${pid} ${started}`

/** Whether the process has ended, apart from its exit code. */
const hasEnded = ({ state, threads }: Process): boolean => state === 'X' || (state === 'Z' && threads <= 1)

/** Orphans become children of one of them: what has another parent is no orphan of the tree. */
function ancestorsOf(pid: number, processes: readonly Process[]): Set<number> {
  const parents = new Map(processes.map((each) => [each.pid, each.parent]))
  const found = new Set<number>()
  for (let next: number | undefined = pid; next !== undefined && !found.has(next); next = parents.get(next)) {
    found.add(next)
  }
  return found
}

/**
 * Finds the processes of one run. A process seen once stays known by its pid and start time, also after its parent has
 * ended.
 */
export class ProcessTree {
  readonly #options: TreeOptions
  #known = new Map<number, string>()
  /** Ids of groups and sessions that only processes of the tree are in. */
  #groups = new Set<number>()
  #sessions = new Set<number>()
  /** Processes whose environment was read and has no token, so that it is read once. */
  #strangers = new Set<string>()
  /** Those whose environment was empty: they had just ended, or were executing another program. */
  #unread = new Map<string, Process>()
  #listed = new Set<number>()
  #isSettled = false
  /** The watcher, a child of the supervisor that does not belong to the agent. */
  spared: number | undefined

  constructor(options: TreeOptions) {
    this.#options = options
  }

  get knowledge(): Knowledge {
    const { token, origin } = this.#options
    return {
      token,
      origin,
      known: [...this.#known],
      groups: [...this.#groups],
      sessions: [...this.#sessions],
    }
  }

  restore({ known, groups, sessions }: Pick<Knowledge, 'known' | 'groups' | 'sessions'>): void {
    this.#known = new Map(known)
    this.#groups = new Set(groups)
    this.#sessions = new Set(sessions)
  }

  /** Whether the last sweep found no new process of the tree, and none that ended before it was known whose it is. */
  get isSettled(): boolean {
    return this.#isSettled
  }

  /**
   * Returns the processes of the tree that have not ended, parents before their children. `onFound` is called at once
   * with those that are known by themselves, because one that starts another and ends is gone when all have been read.
   */
  sweep(onFound?: (process: Process) => void): Process[] {
    const { origin, cgroup, table } = this.#options
    const isOther = ({ pid }: Process) => pid !== process.pid && pid !== this.spared
    const strangers = new Set<string>()
    const unread = new Map<string, Process>()
    const { processes, vanished } = table.list(
      onFound &&
        ((each) => {
          const isKnown = this.#known.get(each.pid) === each.started
          if (isOther(each) && (isKnown || this.#hasToken(each, strangers, unread))) onFound(each)
        }),
    )
    this.#isSettled = vanished.every((pid) => this.#listed.has(pid))
    this.#listed = new Set(processes.map(({ pid }) => pid))
    const all = processes.filter(isOther)
    const leaders = new Map(all.map((each) => [each.pid, each]))
    const inCgroup = cgroup?.pids() ?? new Set()
    this.#forgetEnded(all, leaders)
    const members = new Map<number, Process>()
    const belongs = (each: Process) =>
      this.#known.get(each.pid) === each.started ||
      members.has(each.parent) ||
      each.parent === origin.pid ||
      this.#groups.has(each.group) ||
      this.#sessions.has(each.session) ||
      inCgroup.has(each.pid) ||
      this.#hasToken(each, strangers, unread)
    // Until none is found: a child may be listed before its parent.
    for (let rest = all, before = 0; rest.length !== before; ) {
      before = rest.length
      rest = rest.filter((each) => {
        if (!belongs(each)) return true
        members.set(each.pid, each)
        this.#remember(each, leaders)
        return false
      })
    }
    this.#strangers = strangers
    const reapers = ancestorsOf(process.pid, processes)
    for (const [key, { parent }] of unread) this.#isSettled &&= this.#unread.has(key) || !reapers.has(parent)
    this.#unread = unread
    return [...members.values()].filter((each) => !hasEnded(each)).sort((a, b) => Number(a.started) - Number(b.started))
  }

  #remember({ pid, started, group, session }: Process, leaders: ReadonlyMap<number, Process>): void {
    const { origin } = this.#options
    this.#isSettled &&= this.#known.get(pid) === started
    this.#known.set(pid, started)
    // A member may join a group of its session that others have started, and would take their processes with it.
    if (pid === group && group !== origin.group) this.#groups.add(group)
    const leader = leaders.get(session)
    const isLedByMember = leader === undefined || this.#known.get(session) === leader.started
    if (session > 0 && session !== origin.session && isLedByMember) this.#sessions.add(session)
  }

  /** An id may be reused once no process has it: its leader is then an unknown process. */
  #forgetEnded(all: readonly Process[], leaders: ReadonlyMap<number, Process>): void {
    for (const [pid, started] of this.#known) if (leaders.get(pid)?.started !== started) this.#known.delete(pid)
    const isOurs = (id: number) => !leaders.has(id) || this.#known.has(id)
    const groups = new Set(all.map(({ group }) => group))
    const sessions = new Set(all.map(({ session }) => session))
    for (const id of this.#groups) if (!groups.has(id) || !isOurs(id)) this.#groups.delete(id)
    for (const id of this.#sessions) if (!sessions.has(id) || !isOurs(id)) this.#sessions.delete(id)
  }

  #hasToken(each: Process, strangers: Set<string>, unread: Map<string, Process>): boolean {
    const key = keyOf(each)
    if (!this.#strangers.has(key) && !strangers.has(key)) {
      const { table, token } = this.#options
      const isFound = table.hasInEnvironment(each.pid, `${tokenName}=${token}`)
      if (isFound) return true
      // It may be executing another program at this moment. Only the kernel's own have no group.
      if (isFound === undefined && each.group > 0) {
        unread.set(key, each)
        return false
      }
    }
    strangers.add(key)
    return false
  }

  /** Whether all processes of the group are known to belong to the tree. */
  ownsGroup(group: number): boolean {
    return this.#groups.has(group)
  }
}
