import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { constants } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, vi } from 'vitest'
import { AgentHome, ended } from './agent-command.ts'
import { agentId, type TestFleet } from './service.ts'

/** Waits for what hundreds of processes do on a busy machine. */
export const eventually = <Value>(check: () => Value) => vi.waitFor(check, { timeout: 100_000, interval: 10 })

const program = fileURLToPath(new URL('../wardline-agent.ts', import.meta.url))

function procText(pid: number | string, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'latin1')
  } catch {
    return ''
  }
}

/** Fields of /proc/<pid>/stat after the name. */
const statOf = (pid: number): string[] => {
  const text = procText(pid, 'stat')
  return text.slice(text.lastIndexOf(')') + 2).split(' ')
}

export const parentOf = (pid: number): number => Number(statOf(pid)[1])
export const groupOf = (pid: number): number => Number(statOf(pid)[2])
export const stateOf = (pid: number): string => statOf(pid)[0]!
export const isAlive = (pid: number): boolean => !['', 'Z', 'X'].includes(stateOf(pid))
/** States of the threads that have not ended. */
export const threadStates = (pid: number): string[] =>
  (existsSync(`/proc/${pid}/task`) ? readdirSync(`/proc/${pid}/task`) : [])
    .map((thread) => procText(`${pid}/task/${thread}`, 'stat').replace(/^.*\) (.).*$/s, '$1'))
    .sort()
export const environmentOf = (pid: number): string[] => procText(pid, 'environ').split('\0')
export const groupsOf = (pid: number): string => /^Groups:(.*)$/m.exec(procText(pid, 'status'))![1]!.trim()
export const userOf = (pid: number): number => Number(/^Uid:\s+(\d+)/m.exec(procText(pid, 'status'))![1])

/** A shell that has forked waits in state D until its child, which is stopped, executes another program. */
function willStop(pid: number): boolean {
  const pending = /^ShdPnd:\s*([0-9a-f]+)$/m.exec(procText(pid, 'status'))?.[1] ?? '0'
  return stateOf(pid) === 'D' && ((BigInt(`0x${pending}`) >> BigInt(constants.signals.SIGSTOP - 1)) & 1n) === 1n
}

/** Whether a process executes nothing: stopped, about to stop before its next instruction, or in a frozen cgroup. */
export function isHeld(pid: number): boolean {
  if ('Tt'.includes(stateOf(pid)) || willStop(pid)) return true
  const folder = cgroupOf(pid)
  return folder !== undefined && /^frozen 1$/m.test(readFileSync(`${folder}/cgroup.events`, 'utf8'))
}

/** Folder of the cgroup that a supervisor has put the process into. */
export function cgroupOf(pid: number): string | undefined {
  const folder = /^0::(.*\/wardline-.*)$/m.exec(procText(pid, 'cgroup'))?.[1]
  if (folder === undefined) return undefined
  const mounts = readFileSync('/proc/self/mountinfo', 'utf8').split('\n')
  return `${mounts.find((line) => line.includes(' - cgroup2 '))!.split(' ')[4]}${folder}`
}

/** Moves a process to the cgroup of its supervisor, as one with the same rights can. Returns whether it was in another. */
export function leaveCgroup(pid: number): boolean {
  const folder = cgroupOf(pid)
  if (folder !== undefined) writeFileSync(join(dirname(folder), 'cgroup.procs'), String(pid))
  return folder !== undefined
}

/** Undoes that a supervisor holds the process, as another process of the same user can. */
export function letGo(pid: number): void {
  const folder = cgroupOf(pid)
  if (folder !== undefined) writeFileSync(`${folder}/cgroup.freeze`, '0')
  try {
    process.kill(pid, 'SIGCONT')
  } catch {
    // It ended when the cgroup was thawed.
  }
}

/** Not the program that gives it a terminal, nor its watcher. */
export const isSupervisor = (pid: number): boolean => /wardline-agent\.ts\0run\0/.test(procText(pid, 'cmdline'))

/** A cgroup is used where the tests run as root; hiding it leaves the tree to signals. */
const withoutCgroup = ['unshare', '--mount', 'sh', '-c', 'mount -t tmpfs none /sys/fs/cgroup; exec "$@"', 'sh']
export const canHideCgroup = spawnSync(withoutCgroup[0]!, [...withoutCgroup.slice(1), 'true']).status === 0

/** Loaded into the supervisor and its watcher, it hides /proc from them, so that they use `ps`. */
const withoutProc = `data:text/javascript,${encodeURIComponent(`
  import fs from 'node:fs'
  import { syncBuiltinESMExports } from 'node:module'
  const { existsSync, readFileSync } = fs
  const isProc = (file) => String(file).startsWith('/proc/')
  fs.existsSync = (file) => !isProc(file) && existsSync(file)
  fs.readFileSync = (file, ...more) => readFileSync(isProc(file) ? '/nowhere' : file, ...more)
  syncBuiltinESMExports()`)}`

interface SupervisedOptions {
  options?: string[]
  env?: Record<string, string>
  onTerminal?: boolean
  hidesCgroup?: boolean
  hidesProc?: boolean
  /** A command that starts the supervisor. */
  starter?: string[]
}

/** A home folder, and supervisors in it whose processes all end with the test, whatever the test has found. */
export class Supervised {
  readonly home: AgentHome

  constructor(fleet: TestFleet) {
    this.home = new AgentHome({
      WARDLINE_URL: fleet.wire.url,
      WARDLINE_KEY: fleet.agentKey,
      WARDLINE_INSTANCE_ID: agentId,
    })
    onTestFinished(() => {
      // Until none is left: one may start another meanwhile.
      while (this.processes('all').map((pid) => kill(pid)).length > 0);
    })
  }

  /** Processes of the agent; `all` includes the supervisor and its watcher. They name the home folder, all of them. */
  processes(which: 'agent' | 'all' = 'agent'): number[] {
    const { folder } = this.home
    return readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
      .map(Number)
      .filter((pid) => isAlive(pid) && `${procText(pid, 'environ')}${procText(pid, 'cmdline')}`.includes(folder))
      .filter((pid) => which === 'all' || !/wardline-agent\.ts['\0 ]+(run|_watch)/.test(procText(pid, 'cmdline')))
  }

  /** The process that waits for the end of the supervisor. */
  get watcher(): number | undefined {
    return this.processes('all').find((pid) => /\0_watch/.test(procText(pid, 'cmdline')))
  }

  start(command: string[], { options = [], env = {}, onTerminal, hidesCgroup, ...more }: SupervisedOptions = {}) {
    const node = [
      process.execPath,
      '--conditions=wardline-source',
      ...(more.hidesProc ? ['--import', withoutProc] : []),
    ]
    const own = [...(more.starter ?? []), ...node, program, 'run', ...options, '--', ...command]
    const line = own.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(' ')
    const wrapped = onTerminal ? ['script', '-qefc', `exec ${line}`, '/dev/null'] : own
    const [file, ...args] = [...(hidesCgroup ? withoutCgroup : []), ...wrapped]
    const child = spawn(file!, args, { cwd: this.home.folder, env: { ...this.home.env, ...env } })
    onTestFinished(() => void child.kill('SIGKILL'))
    return new StartedSupervisor(child)
  }

  /** Resolves once all processes of the agent stand, and at least so many are there. */
  held(atLeast: number): Promise<void> {
    return eventually(() => {
      const processes = this.processes()
      expect(processes.length).toBeGreaterThanOrEqual(atLeast)
      expect(processes.filter((pid) => !isHeld(pid))).toEqual([])
    })
  }

  running(atLeast: number): Promise<void> {
    return eventually(() =>
      expect(this.processes().filter((pid) => !isHeld(pid)).length).toBeGreaterThanOrEqual(atLeast),
    )
  }

  gone(): Promise<void> {
    return eventually(() => expect(this.processes()).toEqual([]))
  }
}

class StartedSupervisor {
  readonly child: ChildProcess
  readonly ended: ReturnType<typeof ended>
  said = ''

  constructor(child: ChildProcess) {
    this.child = child
    child.stdin!.on('error', () => {})
    child.stderr!.on('data', (text) => {
      this.said += text
    })
    this.ended = ended(child)
  }

  says(text: string): Promise<void> {
    return eventually(() => expect(this.said).toContain(text))
  }
}

function kill(pid: number): number {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended.
  }
  return pid
}

export const hasProgram = (name: string): boolean => {
  try {
    return execFileSync('sh', ['-c', `command -v ${name}`]).length > 0
  } catch {
    return false
  }
}
