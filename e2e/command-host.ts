import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pathToFileURL } from 'node:url'

/** A command to run, with everything that it takes from its process. */
export interface HostedCommand {
  args: string[]
  env: Record<string, string>
  cwd: string
  /** Standard input. */
  input: string
}

export interface HostedResult {
  code: number
  output: string
  stdout: string
  stderr: string
}

// Runs commands of the command line one after the other, each as if the process were its own: that saves the start of a
// process and the loading of its modules. Started by command.ts with the bundled command line as its argument.

class Exit extends Error {}

const [, , program] = process.argv
const { runCommand }: { runCommand(argv: string[]): Promise<void> } = await import(pathToFileURL(program!).href)
const streams = ['stdout', 'stderr'] as const
const listeners = ['SIGINT', 'SIGTERM'] as const

/** Makes the descriptor 0 read this text: some commands read it as a file. */
function useAsInput(text: string): void {
  const folder = mkdtempSync(join(tmpdir(), 'wardline-input-'))
  writeFileSync(join(folder, 'input'), text)
  closeSync(0)
  if (openSync(join(folder, 'input'), 'r') !== 0) throw new Error('descriptor 0 is not the lowest one that is free')
  rmSync(folder, { recursive: true })
}

async function run({ args, env, cwd, input }: HostedCommand): Promise<HostedResult> {
  const printed = { output: '', stdout: '', stderr: '' }
  for (const name of streams) {
    process[name].removeAllListeners('error')
    process[name].write = (chunk: string | Uint8Array, ...rest: unknown[]) => {
      const text = typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString()
      printed.output += text
      printed[name] += text
      const done = rest.find((each) => typeof each === 'function') as (() => void) | undefined
      if (done) process.nextTick(done)
      return true
    }
  }
  useAsInput(input)
  Object.defineProperty(process, 'stdin', { value: Readable.from(input === '' ? [] : [Buffer.from(input)]) })
  process.chdir(cwd)
  process.env = env
  process.argv = [process.execPath, program!, ...args]
  process.exitCode = undefined
  process.exit = (code) => {
    process.exitCode = code ?? process.exitCode
    throw new Exit()
  }
  try {
    await runCommand(process.argv)
  } catch (fault) {
    if (!(fault instanceof Exit)) throw fault
  }
  for (const name of listeners) process.removeAllListeners(name)
  return { code: Number(process.exitCode ?? 0), ...printed }
}

process.on('message', (command: HostedCommand) => {
  run(command).then(
    (result) => process.send!(result),
    (fault) => process.send!({ fault: String((fault as Error).stack) }),
  )
})
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'))
process.send!('ready')
