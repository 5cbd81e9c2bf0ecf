import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'

/** A server process that ends with the process that started it, even after SIGKILL. */
export interface GuardedProcess {
  pid: number
  /** Output so far. */
  output(): string
  /** Whether it and all its children have exited. */
  hasEnded(): boolean
  /** Resolves when it and all its children have exited. */
  ended: Promise<void>
  /** After its exit: ends the guard of the folder too, so that another process may use it. */
  release(): Promise<void>
}

export interface GuardOptions {
  /** Working directory; the guard removes it when it terminates the process. */
  folder: string
  /** Terminates it immediately and removes everything. */
  endSignal: NodeJS.Signals
  uid?: number | undefined
  gid?: number | undefined
}

// A shell supervises the server. Its input is a pipe from this process, which closes even after SIGKILL: then
// the shell terminates the server and removes the folder, unless it has read a line. The shell
// keeps no output open, so the pipe of standard error closes when the server and all its children have exited.
const guard = `
  "$@" >&2 </dev/null &
  echo $!
  exec >&- 2>&-
  if read -r line; then wait; exit; fi
  kill -s "$GUARD_SIGNAL" $!
  wait
  rm -rf "$GUARD_FOLDER"
`

/** Starts a command in a separate session, so that a Ctrl-C of the test run does not reach it directly. */
async function startGuarded(command: readonly string[], options: GuardOptions): Promise<GuardedProcess> {
  const { folder, endSignal, uid, gid } = options
  const shell = spawn('/bin/sh', ['-c', guard, 'guard', ...command], {
    cwd: folder,
    detached: true,
    uid,
    gid,
    // Without the variables of the caller's shell, because PGPORT, PGDATA and similar would take effect.
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
    // Until the shell has waited for it, the process id of the server still exists.
    await exited
  }
  const [pid] = await once(createInterface(shell.stdout), 'line')
  return { pid: Number(pid), output: () => output, hasEnded: () => hasEnded, ended, release }
}

/** Long enough for a very busy machine. */
const startDeadlineMs = 120_000

/** Starts a server and waits until its output says that it is ready. If it exits, rejects with its output. */
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
