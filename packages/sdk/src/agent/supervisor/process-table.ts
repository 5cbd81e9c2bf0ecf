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

export interface ProcessTable {
  list(): Process[]
  /** Whether the pid still belongs to the process that was listed. */
  isSame(listed: Process): boolean
  /** Whether the environment with which the process started contains the text; undefined if it is empty. */
  hasInEnvironment(pid: number, text: string): boolean | undefined
  /** Whether a process whose first thread has ended has another one that runs. */
  hasRunningThread(pid: number): boolean
}

const buffer = Buffer.alloc(64 * 1024)

/** Returns undefined if the process has ended, or may not be read. */
function withProcFile<Result>(file: string, use: (descriptor: number) => Result): Result | undefined {
  let descriptor: number | undefined
  try {
    descriptor = openSync(file, 'r')
    return use(descriptor)
  } catch {
    return undefined
  } finally {
    if (descriptor !== undefined) closeSync(descriptor)
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

function searchEnvironment(descriptor: number, text: string): boolean | 'empty' {
  let end = ''
  for (let read = 0; read < maxEnvironmentBytes; ) {
    const bytes = readSync(descriptor, buffer)
    if (bytes === 0) return read > 0 ? false : 'empty'
    read += bytes
    const part = end + buffer.toString('latin1', 0, bytes)
    if (part.includes(text)) return true
    end = part.slice(-text.length)
  }
  return false
}

const linuxTable: ProcessTable = {
  list: () =>
    readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .flatMap((name) => readStat(Number(name)) ?? []),
  isSame: ({ pid, started }) => readStat(pid)?.started === started,
  hasInEnvironment(pid, text) {
    const found = withProcFile(`/proc/${pid}/environ`, (descriptor) => searchEnvironment(descriptor, text))
    return found === 'empty' ? undefined : found === true
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
  list() {
    const { stdout = '', pid: own } = spawnSync('ps', ['-A', '-o', psColumns], {
      encoding: 'utf8',
      maxBuffer: maxPsBytes,
    })
    return stdout.split('\n').flatMap((line) => {
      const [, pid, parent, group, state, started] = /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+(.+?)\s*$/.exec(line) ?? []
      if (pid === undefined || Number(pid) === own) return []
      const ids = { pid: Number(pid), parent: Number(parent), group: Number(group), session: 0 }
      return { ...ids, state: state![0]!, threads: 1, started: started! }
    })
  },
  // The list is a few milliseconds old, and another one would take longer.
  isSame: () => true,
  hasInEnvironment: () => false,
  hasRunningThread: () => false,
}

/** `ps` only where there is no /proc, such as on macOS. */
export const openProcessTable = (usesPs = !existsSync('/proc/self/stat')): ProcessTable =>
  usesPs ? psTable : linuxTable
