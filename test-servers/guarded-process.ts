import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'

/** A server that does not outlive the process that started it, however that one ends. */
export interface GuardedProcess {
  pid: number
  /** Everything that it has said. */
  output(): string
  /** Whether it is gone, with all its children. */
  hasEnded(): boolean
  /** Resolves when it is gone, with all its children. */
  ended: Promise<void>
  /** Once it has ended: from now on the folder is not guarded either, and may serve another process. */
  release(): Promise<void>
}

export interface GuardOptions {
  /** Where it runs; removed when the guard has to end it. */
  folder: string
  /** Ends it at once, leaving nothing behind. */
  endSignal: NodeJS.Signals
  uid?: number | undefined
  gid?: number | undefined
}

// A shell stands between the two. Its input is a pipe that only we hold, so that even a SIGKILL of ours ends it: then
// the shell ends the server and removes the folder. A line instead says that there is nothing left to do. The shell
// keeps no output open: the pipe of errors is thus closed as soon as the server and all its children are gone.
const guard = `
  "$@" >&2 </dev/null &
  echo $!
  exec >&- 2>&-
  if read -r line; then wait; exit; fi
  kill -s "$GUARD_SIGNAL" $!
  wait
  rm -rf "$GUARD_FOLDER"
`

/** Starts a command in a separate session: the Ctrl-C that ends a test run reaches it only through us. */
async function startGuarded(command: readonly string[], options: GuardOptions): Promise<GuardedProcess> {
  const { folder, endSignal, uid, gid } = options
  const shell = spawn('/bin/sh', ['-c', guard, 'guard', ...command], {
    cwd: folder,
    detached: true,
    uid,
    gid,
    // Without the settings of the caller's shell: PGPORT, PGDATA and their like would count.
    env: {
      PATH: process.env.PATH,
      LC_ALL: 'C',
      TZ: 'UTC',
      GUARD_SIGNAL: endSignal.replace('SIG', ''),
      GUARD_FOLDER: folder,
    },
  })
  await once(shell, 'spawn')
  let output = ''
  let hasEnded = false
  shell.stderr.setEncoding('utf8').on('data', (text) => {
    output += text
  })
  shell.stdin.on('error', () => {})
  const exited = once(shell, 'exit')
  const ended = once(shell.stderr, 'close').then(() => {
    hasEnded = true
  })
  const release = async () => {
    if (!hasEnded) throw new Error('the server still runs')
    shell.stdin.end('released\n')
    // Until the shell has waited for it, the process id of the server looks as if it still ran.
    await exited
  }
  const [pid] = await once(createInterface(shell.stdout), 'line')
  return { pid: Number(pid), output: () => output, hasEnded: () => hasEnded, ended, release }
}

/** However busy the machine is. */
const startDeadlineMs = 120_000

/** Starts a server and waits until it says that it is ready. Rejects with what it said when it ends instead. */
export async function startServer(
  command: readonly string[],
  options: GuardOptions,
  readyText: string,
): Promise<GuardedProcess> {
  const server = await startGuarded(command, options)
  const deadline = Date.now() + startDeadlineMs
  while (!server.output().includes(readyText)) {
    if (Date.now() > deadline) process.kill(server.pid, options.endSignal)
    if (server.hasEnded() || Date.now() > deadline) {
      await server.ended
      await server.release()
      throw new Error(server.output())
    }
    await pause(5)
  }
  return server
}
