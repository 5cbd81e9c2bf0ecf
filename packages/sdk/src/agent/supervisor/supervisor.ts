import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { constants, homedir } from 'node:os'
import type { Enforcer, Evidence, Presence } from '../../enforcer.ts'
import type { Settings } from '../../options.ts'
import { Service } from '../../service.ts'
import type { Environment } from '../agent-settings.ts'
import { cannotStart, exitCodeOf } from '../command-fault.ts'
import type { Account } from './account.ts'
import { Cgroup } from './cgroup.ts'
import { codingToolOf, watchConfiguration } from './configuration-watch.ts'
import { openProcessTable } from './process-table.ts'
import { ProcessTree, tokenName } from './process-tree.ts'
import type { RunOptions } from './run-options.ts'
import { SupervisorLink } from './supervisor-link.ts'
import { Terminal } from './terminal.ts'
import { type Held, TreeHolder } from './tree-holder.ts'
import { Watcher } from './watcher.ts'

/** Grace between SIGTERM and SIGKILL. */
const graceMs = 5_000
/** How often new processes are looked for, and in a held tree those that another process has continued. */
const sweepEveryMs = 1_000
const heldSweepEveryMs = 250
/** Sweeps take at most a twentieth of a core, also on a machine with tens of thousands of processes. */
const sweepShare = 20

const endingSignals = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const
/** On a terminal, the kernel sends them to the agent as well, which is in the same process group. */
const terminalSignals: readonly NodeJS.Signals[] = ['SIGINT', 'SIGHUP', 'SIGQUIT']

interface SupervisorParts {
  settings: Settings
  options: RunOptions
  account: Account | undefined
  env: Environment
  warn(sentence: string): void
}

/** What the tree has to be. A new object for each change, so that work for an older one notices it. */
interface Wanted {
  isHeld: boolean
  since: number
}

/**
 * Starts one agent, and holds its processes while it is suspended. Only `#apply` holds and continues them, one change
 * after the other, and `#endRest` ends them.
 */
export class Supervisor implements Enforcer {
  readonly #parts: SupervisorParts
  readonly #token = randomBytes(16).toString('hex')
  readonly #terminal = new Terminal()
  readonly #cgroup: Cgroup | undefined
  readonly #tree: ProcessTree
  readonly #holder: TreeHolder
  readonly #link: SupervisorLink
  #watcher: Watcher | undefined
  #child: ChildProcess | undefined
  /** After the first contact, or the wait for it. */
  #mayStart = false
  /** After Ctrl-Z, until the supervisor is continued. */
  #isPaused = false
  #isEnding = false
  #wanted: Wanted = { isHeld: false, since: 0 }
  #applying: Promise<void> | undefined
  #evidence: Evidence | undefined
  #processes = 0
  #heldAt: number | undefined
  /** A tree that was frozen for longer than `--end-after`. */
  #isOverdue = false
  #resolve: (code: number) => void = () => {}
  #reject: (fault: Error) => void = () => {}
  readonly #ended = new Promise<number>((resolve, reject) => {
    this.#resolve = resolve
    this.#reject = reject
  })

  constructor(parts: SupervisorParts) {
    this.#parts = parts
    const table = openProcessTable()
    const { pid, group, session } = table.list().processes.find((each) => each.pid === process.pid)!
    this.#cgroup = Cgroup.create(`wardline-${process.pid}-${this.#token.slice(0, 8)}`)
    this.#tree = new ProcessTree({ table, token: this.#token, cgroup: this.#cgroup, origin: { pid, group, session } })
    this.#holder = new TreeHolder(this.#tree, table, this.#cgroup)
    this.#link = new SupervisorLink(parts.settings, this)
    this.#link.listeners.on('error', ({ message }) => parts.warn(message))
    this.#link.listeners.on('suspend', ({ reason }) => {
      // Before the warning, because standard error may block.
      this.#change()
      parts.warn(`Suspended: ${reason}.${this.#child ? '' : ' The command starts with the resume.'}`)
    })
    this.#link.listeners.on('resume', () => {
      parts.warn('Resumed.')
      this.#change()
    })
  }

  /** Runs until the agent has ended. Returns its exit code. Throws a CommandFault if it cannot be started. */
  async run(): Promise<number> {
    this.#passSignals()
    if (this.#parts.options.onCrash === 'end') {
      this.#watcher = new Watcher(this.#environment(), (pid) => {
        this.#tree.spared = pid
      })
    }
    this.#noteTree()
    const stopTicking = this.#tick()
    let stopWatching = () => {}
    try {
      await Promise.race([this.#link.start(), this.#ended])
      stopWatching = this.#watchConfiguration()
      this.#mayStart = true
      this.#change()
      const code = await this.#ended
      this.#applying = this.#endRest(this.#applying)
      await this.#applying
      if (this.#link.suspended) await this.#link.renew()
      return code
    } finally {
      stopTicking()
      stopWatching()
      this.#terminal.restore()
      await this.#link.stop()
      this.#watcher?.close()
      await this.#cgroup?.remove()
    }
  }

  /** The hook of a coding agent reports it too, but not once it was removed. */
  #watchConfiguration(): () => void {
    const { settings, options, account } = this.#parts
    const tool = codingToolOf(options.command, options.args, settings.instanceId)
    if (tool === undefined) return () => {}
    const isSuspended = () => this.#link.suspended
    const home = account?.home ?? homedir()
    return watchConfiguration({
      tool,
      env: this.#environment(),
      home,
      settings,
      service: new Service(settings),
      isSuspended,
    })
  }

  async apply(): Promise<Evidence | undefined> {
    await this.#applying
    return this.#evidence
  }

  presence(): Presence {
    const { account } = this.#parts
    return { processes: this.#processes, isolated: account !== undefined && account.uid !== process.getuid?.() }
  }

  check() {
    return this.#holder.check()
  }

  #change(): void {
    this.#wanted = { isHeld: this.#link.suspended || this.#isPaused, since: performance.now() }
    if (this.#isEnding) return
    this.#applying ??= this.#apply().finally(() => {
      this.#applying = undefined
    })
  }

  async #apply(): Promise<void> {
    for (let wanted: Wanted | undefined; wanted !== this.#wanted && !this.#isEnding; ) {
      wanted = this.#wanted
      if (wanted.isHeld) await this.#hold(wanted)
      else this.#release()
      this.#noteTree()
    }
  }

  async #hold(wanted: Wanted): Promise<void> {
    const isSuspended = this.#link.suspended
    const isEnd = isSuspended && (this.#isOverdue || this.#parts.options.onSuspend === 'end')
    const held = await this.#holdTree(isEnd, wanted)
    if (!held) return
    this.#heldAt ??= performance.now()
    this.#processes = isEnd ? held.left : held.processes
    if (isSuspended) this.#prove(isEnd ? 'end' : 'freeze', held, wanted)
    this.#terminal.take()
    if (this.#isPaused) process.kill(process.pid, 'SIGSTOP')
  }

  #holdTree(isEnd: boolean, wanted: Wanted): Promise<Held | undefined> | Held {
    if (!this.#child) return { processes: 0, left: 0 }
    if (!isEnd) return this.#holder.hold(() => wanted === this.#wanted)
    // The handlers of a tree that was frozen for so long would run in a suspended agent.
    return this.#isOverdue ? this.#holder.kill() : this.#holder.end(graceMs, () => false)
  }

  #prove(action: Evidence['action'], { processes, left }: Held, { since }: Wanted): void {
    const isKnown = this.#evidence?.action === action && this.#evidence.left === left
    const ms = Math.round(performance.now() - since)
    const isCorrected = this.#evidence !== undefined && this.#evidence.left !== left
    this.#evidence = { action, processes, left, ms }
    if (isCorrected) void this.#link.renew()
    if (!this.#child || isKnown) return
    const result = `${processes} processes ${action === 'end' ? 'ended' : 'held'}`
    this.#parts.warn(left > 0 ? `${result}, of which ${left} cannot be stopped.` : `${result} within ${ms} ms.`)
  }

  #release(): void {
    this.#evidence = undefined
    this.#heldAt = undefined
    this.#isOverdue = false
    this.#terminal.giveBack()
    if (this.#child) this.#holder.release()
    else if (this.#mayStart) this.#start()
  }

  #start(): void {
    const { options, account } = this.#parts
    const env = { ...this.#environment(), [tokenName]: this.#token }
    const identity = account && { uid: account.uid, gid: account.gid }
    if (account) Object.assign(env, { HOME: account.home, USER: account.name, LOGNAME: account.name })
    const start = () =>
      // On a terminal in its group, which Node.js cannot change: others may neither read nor receive Ctrl-C.
      spawn(options.command, options.args, { stdio: 'inherit', detached: !this.#terminal.exists, env, ...identity })
    try {
      this.#child = this.#cgroup ? this.#cgroup.startInside(start) : start()
    } catch (fault) {
      this.#reject(cannotStart(options.command, fault as Error))
      return
    }
    this.#child.on('error', (fault) => this.#reject(cannotStart(options.command, fault)))
    this.#child.on('exit', (code, signal) => this.#end(exitCodeOf(code, signal)))
    this.#processes = this.#tree.sweep().length
  }

  #environment(): NodeJS.ProcessEnv {
    const hidden = ['WARDLINE_KEY', 'WARDLINE_KEY_FILE', tokenName]
    return Object.fromEntries(Object.entries(this.#parts.env).filter(([name]) => !hidden.includes(name)))
  }

  #end(code: number): void {
    this.#isEnding = true
    this.#resolve(code)
  }

  /** Ends what the command has left: it would go on without a supervisor. */
  async #endRest(before: Promise<void> | undefined): Promise<void> {
    await before
    if (!this.#child) return
    const since = performance.now()
    const isHeld = () => this.#wanted.isHeld
    const held = await (isHeld() ? this.#holder.kill() : this.#holder.end(graceMs, isHeld))
    const isProven = this.#evidence?.action === 'end'
    if (this.#link.suspended && !isProven) this.#prove('end', held, { isHeld: true, since })
  }

  /** Looks for new processes, and stops in a held tree what another process has continued. */
  #tick(): () => void {
    let timer: NodeJS.Timeout
    const look = () => {
      const startedAt = performance.now()
      if (this.#child && !this.#applying && !this.#isEnding) this.#look()
      const every = this.#wanted.isHeld ? heldSweepEveryMs : sweepEveryMs
      timer = setTimeout(look, Math.max(every, sweepShare * (performance.now() - startedAt)))
    }
    look()
    return () => clearTimeout(timer)
  }

  #look(): void {
    const { endAfter } = this.#parts.options
    if (!this.#wanted.isHeld) this.#processes = this.#tree.sweep().length
    else if (endAfter !== undefined && this.#link.suspended && performance.now() - this.#heldAt! >= endAfter * 1000) {
      this.#isOverdue = true
      this.#change()
      void this.#link.renew()
    } else {
      const held = this.#holder.keep()
      this.#processes = held.processes
      if (this.#evidence && held.left > this.#evidence.left) {
        this.#parts.warn(`${held.left} of ${held.processes} held processes were running again.`)
        this.#evidence = { ...this.#evidence, ...held }
        void this.#link.renew()
      }
      // One look that finds none is no proof.
      if (this.#evidence && (held.left < this.#evidence.left || this.#holder.canHoldMore(held))) this.#change()
    }
    this.#noteTree()
  }

  #noteTree(): void {
    this.#watcher?.note({ knowledge: this.#tree.knowledge, cgroup: this.#cgroup?.folder })
  }

  #passSignals(): void {
    for (const name of endingSignals) process.on(name, () => this.#takeEndingSignal(name))
    for (const name of ['SIGUSR1', 'SIGUSR2'] as const) process.on(name, () => this.#signalChild(name))
    process.on('SIGTSTP', () => {
      this.#isPaused = true
      this.#change()
    })
    process.on('SIGCONT', () => {
      this.#isPaused = false
      // The shell has continued the whole group.
      this.#change()
    })
  }

  #takeEndingSignal(name: (typeof endingSignals)[number]): void {
    // A held agent would not see it, and one that has not begun is not there.
    if (!this.#child || this.#wanted.isHeld) this.#end(128 + constants.signals[name])
    else if (!this.#terminal.exists || !terminalSignals.includes(name)) this.#signalChild(name)
  }

  #signalChild(name: NodeJS.Signals): void {
    try {
      if (this.#child?.pid !== undefined && !this.#isEnding) process.kill(this.#child.pid, name)
    } catch {
      // It has ended, or belongs to another user by now.
    }
  }
}
