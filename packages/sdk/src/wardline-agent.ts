import { writeSync } from 'node:fs'
import { argv, env, exit, stdout } from 'node:process'
import type { CodingTool } from './agent/agent-settings.ts'
import { failing, type HookAnswer, type HookProgress } from './agent/hook-answer.ts'
import { codingTools } from './coding-tools.ts'

// The command `wardline-agent`. A hook runs before every tool call, so each command loads only the modules it needs.

/** When a hook answers at the latest, in milliseconds since its process started: after all timeouts within it. */
const hookMs = 4_500

const isCodingTool = (name: string | undefined): name is CodingTool => codingTools.includes(name as CodingTool)

function write(descriptor: 1 | 2, text: string): void {
  let rest = Buffer.from(text)
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(descriptor, rest))
    } catch (fault) {
      // EAGAIN means that the pipe is full, so retry. After any other error, its reader is gone.
      if ((fault as { code?: string }).code !== 'EAGAIN') return
    }
  }
}

/** Exits immediately, so that an open connection does not keep a person waiting. */
function end({ stdout, stderr, exitCode }: HookAnswer): never {
  write(1, stdout)
  write(2, stderr)
  exit(exitCode)
}

/** Runs a hook. No failure in it may look like a hook that allows the call. */
function runHook(args: string[]): void {
  const [tool] = args.filter((arg) => !arg.startsWith('-'))
  const flags = args.filter((arg) => arg.startsWith('-'))
  if (
    flags.some((flag) => flag !== '--fail-closed') ||
    args.length - flags.length > 1 ||
    (tool && !isCodingTool(tool))
  ) {
    const sentence = `The Wardline hook is configured wrongly: its command must be "wardline-agent hook ${codingTools.join('|')} [--fail-closed]".`
    end({ exitCode: 2, stdout: '', stderr: `${sentence}\n` })
  }
  const known = tool as CodingTool | undefined
  const failClosed = flags.length > 0
  const progress: HookProgress = { failMode: 'closed', mustCheck: false, decided: undefined }
  const fail = (fault: unknown): never => {
    const sentence = `The hook failed: ${fault instanceof Error ? fault.message : String(fault)}.`
    return end(failing(known, progress, sentence))
  }
  process.on('uncaughtException', fail).on('unhandledRejection', fail)
  setTimeout(() => fail(new Error(`it took longer than ${hookMs} ms`)), hookMs - performance.now())
  import('./agent/hook.ts')
    .then(({ answerHook }) => answerHook({ tool: known, failClosed, env, progress }))
    .then(end, fail)
}

const [command, ...words] = argv.slice(2)
if (command === 'hook') runHook(words)
else {
  import('./agent/command-line.ts')
    .then(({ runCommand }) => runCommand(command, words, env))
    // Wait until stdout is flushed.
    .then((code) => stdout.write('', () => exit(code)))
    .catch((fault) => end({ exitCode: 1, stdout: '', stderr: `wardline-agent: ${(fault as Error).message}\n` }))
}
