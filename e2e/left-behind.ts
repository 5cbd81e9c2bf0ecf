import { type ChildProcess, spawn } from 'node:child_process'
import type { Writable } from 'node:stream'

/** Takes lines: `+ <pid>`, `- <pid>`, `/ <folder>`. When they end, it kills the processes and removes the folders. */
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

// A handler of the exit event does not run in a worker that is killed. The end of its pipe is noticed in any case, by a
// process that a signal to the group of the runner does not reach.
function write(line: string): void {
  if (!input) {
    const child = spawn('sh', ['-c', cleanup], { stdio: ['pipe', 'ignore', 'ignore'], detached: true })
    child.unref()
    input = child.stdin
    ;(child.stdin as unknown as { unref(): void }).unref()
  }
  input.write(`${line}\n`)
}

/** However the tests end, an interrupt included, this process does not outlive them. */
export function endWithTests(child: ChildProcess): void {
  const { pid } = child
  if (pid === undefined) return
  write(`+ ${pid}`)
  child.once('exit', () => write(`- ${pid}`))
}

/** However the tests end, this folder is removed. */
export function removeWithTests(folder: string): void {
  write(`/ ${folder}`)
}
