import type { Command } from 'commander'
import { describe, expect, test } from 'vitest'
import { createProgram } from './command.ts'
import { UsageError, usageLines } from './root.ts'

/** Returns the words of every command without subcommands. */
function leavesOf(command: Command, words: string[] = []): string[][] {
  if (command.commands.length === 0) return [words]
  return command.commands.flatMap((child) => leavesOf(child, [...words, child.name()]))
}
const program = await createProgram()
const leaves = leavesOf(program).map((words) => words.join(' '))
const groups = program.commands.filter(({ commands }) => commands.length > 0)

/** Returns the usage error of a command line. */
async function refusalOf(words: string[]): Promise<{ error: string; usage: string[] }> {
  const fresh = await createProgram()
  const fault = await fresh.parseAsync(['node', 'wardline', ...words]).then(
    () => expect.fail(`wardline ${words.join(' ')} was accepted`),
    (cause: unknown) => cause,
  )
  if (!(fault instanceof UsageError)) throw fault
  return { error: fault.message, usage: usageLines(fault.command) }
}

const commandOf = (words: string): Command =>
  words.split(' ').reduce((at, name) => at.commands.find((child) => child.name() === name)!, program)

/** Whether a command takes any number of any texts. */
const takesTexts = (words: string): boolean =>
  commandOf(words).registeredArguments.some(({ variadic, parseArg }) => variadic && parseArg === undefined)

/** Returns the words of a command with a value for each required option. */
function withRequired(words: string): string[] {
  const path = words.split(' ')
  const command = commandOf(words)
  const value = ({ argChoices, long }: Command['options'][number]) =>
    argChoices?.[0] ?? (long === '--url' ? 'http://127.0.0.1:1' : 'x')
  const required = command.options.filter(({ mandatory, defaultValue }) => mandatory && defaultValue === undefined)
  return [...path, ...required.flatMap((option) => [option.long!, value(option)])]
}

function expectOneSentence({ error, usage }: { error: string; usage: string[] }): void {
  expect(error).toMatch(/^[-A-Z<][^\n]+[.)]$/)
  expect(error).not.toMatch(/^error|options\]/)
  expect(usage).toEqual([expect.stringMatching(/^Usage: wardline /), expect.stringMatching(/^See: wardline .*--help$/)])
}

describe('an invalid command line', () => {
  test.each(leaves)('with an unknown option of wardline %s prints one sentence and the usage', async (words) => {
    const refused = await refusalOf([...withRequired(words), '--nosuch'])
    expectOneSentence(refused)
    expect(refused.error).toBe("Unknown option '--nosuch'.")
    expect(refused.usage[1]).toBe(`See: wardline ${words} --help`)
  })

  test.each(leaves.filter((words) => !takesTexts(words)))(
    'with too many arguments of wardline %s prints one sentence and the usage',
    async (words) => {
      // Commands with any number of arguments reject these values.
      const refused = await refusalOf([...withRequired(words), 'a', 'b', 'c', 'd'])
      expectOneSentence(refused)
    },
  )

  test.each(groups.map((group) => group.name()))(
    'with an unknown subcommand of wardline %s prints one sentence and the usage of the group',
    async (name) => {
      const refused = await refusalOf([name, 'no such', 'command'])
      expectOneSentence(refused)
      expect(refused.usage[0]).toMatch(new RegExp(`^Usage: wardline ${name}`))
    },
  )

  test.each([
    [['nosuch'], "Unknown command 'nosuch'."],
    [['stauts'], "Unknown command 'stauts' (Did you mean status?)"],
    [['audit'], /^Command missing; the commands of wardline audit are .*verify, checkpoint/],
    [
      ['alerts', 'acknowledge', 'x'],
      /^Unknown command 'acknowledge' of wardline alerts; its commands are list, show, ack, /,
    ],
    [['kill', 'a'], 'Option --reason <text> is required.'],
    [['kill', 'a', '--reason'], 'Option --reason <text> needs a value.'],
    [['resume'], 'Argument <id> is missing.'],
    [['tail', '--severity', 'x'], '--severity x is invalid: allowed choices are info, warning, critical, breach.'],
    [['events', '--limit', '0'], '--limit 0 is invalid: it must be a whole number from 1 to 999999.'],
    [['completion', 'x'], '<shell> x is invalid: allowed choices are bash, zsh, fish.'],
  ])('%j prints: %s', async (words, sentence) => {
    expect((await refusalOf(words)).error).toMatch(sentence)
  })

  // An address may contain a password, and terminals are shared and recorded.
  test('is printed without the password of an address', async () => {
    const { error } = await refusalOf(['status', '--url', 'http://user:hunter2@wardline.example'])
    expect(error).toBe('--url http://…@wardline.example is invalid: it must not contain a user or a password.')
  })
})
