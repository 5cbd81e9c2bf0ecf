import { type ChildProcess, spawn } from 'node:child_process'
import type { Environment } from '../agent-settings.ts'
import { Cgroup } from './cgroup.ts'
import { openProcessTable } from './process-table.ts'
import { type Knowledge, ProcessTree } from './process-tree.ts'
import { TreeHolder } from './tree-holder.ts'
import { watchCommand } from './watch-command.ts'

/** A watcher that takes no messages is replaced: a tree of 10,000 processes needs a quarter of this. */
const maxUnreadBytes = 1024 * 1024
const restartAfterMs = 1_000

/** What the second process knows: the tree, and where its cgroup is. */
interface Watched {
  knowledge: Knowledge
  cgroup: string | undefined
}

/** Keeps a second process, which ends the tree when this one ends without a word. */
export class Watcher {
  readonly #env: Environment
  readonly #onStart: (pid: number) => void
  #child: ChildProcess | undefined
  #watched = ''
  #isClosed = false

  /** `onStart` is called with the pid of each second process. */
  constructor(env: Environment, onStart: (pid: number) => void) {
    this.#env = env
    this.#onStart = onStart
    this.#start()
  }

  #start(): void {
    if (this.#isClosed) return
    const args = [...process.execArgv, process.argv[1]!, watchCommand]
    // In a separate session no signal for the group of the supervisor reaches it.
    const child = spawn(process.execPath, args, { detached: true, stdio: ['pipe', 'ignore', 'ignore'], env: this.#env })
    this.#child = child
    if (child.pid !== undefined) this.#onStart(child.pid)
    child.stdin!.on('error', () => {})
    child.on('error', () => {})
    child.once('close', () => setTimeout(() => this.#start(), restartAfterMs).unref())
    this.#send()
  }

  note(watched: Watched): void {
    const text = JSON.stringify(watched)
    if (text === this.#watched) return
    this.#watched = text
    this.#send()
  }

  #send(): void {
    const input = this.#child?.stdin
    if (!input || this.#watched === '') return
    if (input.writableLength > maxUnreadBytes) this.#child?.kill('SIGKILL')
    else input.write(`${this.#watched}\n`)
  }

  /** Ends the second process, which then does nothing. */
  close(): void {
    this.#isClosed = true
    this.#child?.kill('SIGKILL')
  }
}

/** The second process: waits for the end of the first one, then ends the tree as it was last described. */
export async function watchTree(): Promise<void> {
  // The end of a service sends them to all its processes. The last one would start the debugger.
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR1'] as const) process.on(name, () => {})
  let unread = ''
  let last: string | undefined
  for await (const text of process.stdin.setEncoding('utf8')) {
    const lines = (unread + text).split('\n')
    unread = lines.pop()!
    last = lines.at(-1) ?? last
  }
  if (last === undefined) return
  const { knowledge, cgroup: folder } = JSON.parse(last) as Watched
  const cgroup = folder === undefined ? undefined : new Cgroup(folder)
  const table = openProcessTable()
  // Its pid may belong to another process by now.
  const origin = { ...knowledge.origin, pid: -1 }
  const tree = new ProcessTree({ table, token: knowledge.token, cgroup, origin })
  tree.restore(knowledge)
  await new TreeHolder(tree, table, cgroup).kill()
  await cgroup?.remove()
}
