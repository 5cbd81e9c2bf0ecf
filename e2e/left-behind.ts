import { type ChildProcess, spawn } from 'node:child_process'
import type { Writable } from 'node:stream'

/** Reads `+ <pid>`, `- <pid>` and `/ <folder>`; at the end of input it kills the processes and removes the folders. */
const cleanup = `
pids=
folders=
while read -r sign what; do
  case $sign in
    +) pids="$pids $what" ;;
    -) others=; for pid in $pids; do [ "$pid" = "$what" ] || others="$others $pid"; done; pids=$others ;;
    /) folders="$folders$what
" ;;
  esac
done
[ -z "$pids" ] || kill -9 $pids
printf '%s' "$folders" | while read -r folder; do rm -rf "$folder"; done
`

let input: Writable | undefined

// An exit handler does not run in a worker that is killed. The end of the pipe is always noticed, by a
// process that does not receive signals to the process group of the runner.
function write(line: string): void {
  if (!input) {
    const child = spawn('sh', ['-c', cleanup], { stdio: ['pipe', 'ignore', 'ignore'], detached: true })
    child.unref()
    input = child.stdin
    ;(child.stdin as unknown as { unref(): void }).unref()
  }
  input.write(`${line}\n`)
}

/** Kills this process when the tests end, even by an interrupt. */
export function endWithTests(child: ChildProcess): void {
  const { pid } = child
  if (pid === undefined) return
  write(`+ ${pid}`)
  child.once('exit', () => write(`- ${pid}`))
}

/** Removes this folder when the tests end, even by an interrupt. */
export function removeWithTests(folder: string): void {
  write(`/ ${folder}`)
}
