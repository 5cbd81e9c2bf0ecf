import { spawnSync } from 'node:child_process'
import { closeSync, existsSync, openSync, readdirSync, readSync } from 'node:fs'

export interface Process {
  pid: number
  parent: number
  group: number
  /** 0 where it is unknown. */
  session: number
  /** As in /proc/<pid>/stat, such as R, S, D, T and Z. */
  state: string
  threads: number
  /** Time of the start. With the pid it identifies a process, because pids are reused. */
  started: string
}

interface Listing {
  processes: Process[]
  /** Pids of those that ended before they were read. */
  vanished: number[]
}

export interface ProcessTable {
  /** `onRead` is called with each process at the moment it is read. */
  list(onRead?: (process: Process) => void): Listing
  /** Whether the pid still belongs to the process that was listed. */
  isSame(listed: Process): boolean
  /** Whether the environment with which the process started contains the text; undefined if it has none any more, or not yet. */
  hasInEnvironment(pid: number, text: string): boolean | undefined
  /** Whether a process whose first thread has ended has another one that runs. */
  hasRunningThread(pid: number): boolean
}

const buffer = Buffer.alloc(64 * 1024)

function withDescriptor<Result>(file: string, use: (descriptor: number) => Result): Result {
  const descriptor = openSync(file, 'r')
  try {
    return use(descriptor)
  } finally {
    closeSync(descriptor)
  }
}

/** Returns undefined if the process has ended, or may not be read. */
function withProcFile<Result>(file: string, use: (descriptor: number) => Result): Result | undefined {
  try {
    return withDescriptor(file, use)
  } catch {
    return undefined
  }
}

const readStart = (descriptor: number): string => buffer.toString('latin1', 0, readSync(descriptor, buffer))

function parseStat(pid: number, text: string): Process {
  // The name of the program, in parentheses, may contain any character.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ', 20)
  return {
    pid,
    state: fields[0]!,
    parent: Number(fields[1]),
    group: Number(fields[2]),
    session: Number(fields[3]),
    threads: Number(fields[17]),
    started: fields[19]!,
  }
}

const readStat = (pid: number): Process | undefined =>
  withProcFile(`/proc/${pid}/stat`, (descriptor) => parseStat(pid, readStart(descriptor)))

/** Linux limits arguments and environment together to 6 MiB. */
const maxEnvironmentBytes = 8 * 1024 * 1024

function searchEnvironment(descriptor: number, text: string): boolean | undefined {
  let end = ''
  for (let read = 0; read < maxEnvironmentBytes; ) {
    const bytes = readSync(descriptor, buffer)
    if (bytes === 0) return read > 0 ? false : undefined
    read += bytes
    const part = end + buffer.toString('latin1', 0, bytes)
    if (part.includes(text)) return true
    end = part.slice(-text.length)
  }
  return false
}

/** Processes that start another one and end are among the newest. Pids start over at the lowest one. */
function newestFirst(names: string[]): number[] {
  const newest = Number(withProcFile('/proc/loadavg', readStart)?.trim().split(' ').at(-1))
  const pids = Int32Array.from(names, Number).sort()
  const startedBefore = pids.filter((pid) => pid > newest)
  return [...pids.subarray(0, pids.length - startedBefore.length).reverse(), ...startedBefore.reverse()]
}

const linuxTable: ProcessTable = {
  list(onRead) {
    const processes: Process[] = []
    const vanished: number[] = []
    for (const pid of newestFirst(readdirSync('/proc').filter((name) => /^\d+$/.test(name)))) {
      const found = readStat(pid)
      if (found) {
        processes.push(found)
        onRead?.(found)
      } else vanished.push(pid)
    }
    return { processes, vanished }
  },
  isSame: ({ pid, started }) => readStat(pid)?.started === started,
  hasInEnvironment(pid, text) {
    try {
      return withDescriptor(`/proc/${pid}/environ`, (descriptor) => searchEnvironment(descriptor, text))
    } catch (fault) {
      // Those of other users may not be read; others have ended.
      return /^(EACCES|EPERM)$/.test((fault as { code?: string }).code ?? '') ? false : undefined
    }
  },
  hasRunningThread(pid) {
    try {
      return readdirSync(`/proc/${pid}/task`).some((thread) => {
        const state = withProcFile(`/proc/${pid}/task/${thread}/stat`, readStart)
        return state !== undefined && !/\) [TtZX] [^)]*$/.test(state)
      })
    } catch {
      return false
    }
  },
}

/** What every `ps` prints. It has no sessions and no environments. */
const psColumns = 'pid=,ppid=,pgid=,stat=,lstart='
const maxPsBytes = 16 * 1024 * 1024

const psTable: ProcessTable = {
  list(onRead) {
    const { stdout = '', pid: own } = spawnSync('ps', ['-A', '-o', psColumns], {
      encoding: 'utf8',
      maxBuffer: maxPsBytes,
    })
    const processes = stdout.split('\n').flatMap((line) => {
      const [, pid, parent, group, state, started] = /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+(.+?)\s*$/.exec(line) ?? []
      if (pid === undefined || Number(pid) === own) return []
      const ids = { pid: Number(pid), parent: Number(parent), group: Number(group), session: 0 }
      return { ...ids, state: state![0]!, threads: 1, started: started! }
    })
    if (onRead) processes.forEach(onRead)
    return { processes, vanished: [] }
  },
  // The list is a few milliseconds old, and another one would take longer.
  isSame: () => true,
  hasInEnvironment: () => false,
  hasRunningThread: () => false,
}

/** `ps` only where there is no /proc, such as on macOS. */
export const openProcessTable = (usesPs = !existsSync('/proc/self/stat')): ProcessTable =>
  usesPs ? psTable : linuxTable
