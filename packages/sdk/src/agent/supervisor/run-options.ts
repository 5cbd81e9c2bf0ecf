import { CommandFault } from '../command-fault.ts'

export interface RunOptions {
  instance: string | undefined
  onSuspend: 'freeze' | 'end'
  /** Seconds after which a frozen tree is ended. */
  endAfter: number | undefined
  onCrash: 'end' | 'leave'
  user: string | undefined
  command: string
  args: string[]
}

const wrong = (sentence: string) => new CommandFault(`${sentence} See: wardline-agent --help`, 'usage')

const choices: Record<string, readonly string[] | undefined> = {
  '--instance': undefined,
  '--on-suspend': ['freeze', 'end'],
  '--end-after': undefined,
  '--on-crash': ['end', 'leave'],
  '--user': undefined,
}
/** A timer of Node.js takes no longer one; a month. */
const maxEndAfterSeconds = 2_592_000 / 2

/** Reads the words after `run`. Throws a usage error. */
export function readRunOptions(words: readonly string[]): RunOptions {
  const end = words.indexOf('--')
  const [command, ...args] = end < 0 ? [] : words.slice(end + 1)
  if (command === undefined) throw wrong('run takes a command after "--".')
  const values = new Map<string, string>()
  const own = words.slice(0, end)
  while (own.length > 0) {
    const [, name = '', joined] = /^([^=]*)(?:=(.*))?$/s.exec(own.shift()!)!
    if (!Object.hasOwn(choices, name)) throw wrong(`run has no option ${name}.`)
    const value = joined ?? own.shift()
    if (!value || value.startsWith('--')) throw wrong(`${name} takes a value.`)
    if (choices[name]?.includes(value) === false) throw wrong(`${name} takes ${choices[name].join(' or ')}.`)
    if (values.has(name)) throw wrong(`${name} was given twice.`)
    values.set(name, value)
  }
  const seconds = values.get('--end-after')
  if (seconds !== undefined && !(/^\d+$/.test(seconds) && Number(seconds) <= maxEndAfterSeconds)) {
    throw wrong(`--end-after takes seconds, at most ${maxEndAfterSeconds}.`)
  }
  return {
    instance: values.get('--instance'),
    onSuspend: (values.get('--on-suspend') ?? 'freeze') as RunOptions['onSuspend'],
    endAfter: seconds === undefined ? undefined : Number(seconds),
    onCrash: (values.get('--on-crash') ?? 'end') as RunOptions['onCrash'],
    user: values.get('--user'),
    command,
    args,
  }
}
