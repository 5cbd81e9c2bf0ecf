import type { Command } from 'commander'
import { describe, expect, test } from 'vitest'
import { createProgram } from './command.ts'
import { UsageError, usageLines } from './root.ts'

/** Every command that does something, by its words. */
function leavesOf(command: Command, words: string[] = []): string[][] {
  if (command.commands.length === 0) return [words]
  return command.commands.flatMap((child) => leavesOf(child, [...words, child.name()]))
}
const program = await createProgram()
const leaves = leavesOf(program).map((words) => words.join(' '))
const groups = program.commands.filter(({ commands }) => commands.length > 0)

/** How the command line is refused, before anything of it is run. */
async function refusalOf(words: string[]): Promise<{ error: string; usage: string[] }> {
  const fresh = await createProgram()
  const fault = await fresh.parseAsync(['node', 'wardline', ...words]).then(
    () => expect.fail(`wardline ${words.join(' ')} was accepted`),
    (cause: unknown) => cause,
  )
  if (!(fault instanceof UsageError)) throw fault
  return { error: fault.message, usage: usageLines(fault.command) }
}

/** The words of a command, and a value for each option that it requires. */
function withRequired(words: string): string[] {
  const path = words.split(' ')
  const command = path.reduce((at, name) => at.commands.find((child) => child.name() === name)!, program)
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

describe('a wrong command line', () => {
  test.each(leaves)('of wardline %s is answered by one sentence and its usage: an unknown option', async (words) => {
    const refused = await refusalOf([...withRequired(words), '--nosuch'])
    expectOneSentence(refused)
    expect(refused.error).toBe("Unknown option '--nosuch'.")
    expect(refused.usage[1]).toBe(`See: wardline ${words} --help`)
  })

  test.each(leaves)('of wardline %s is answered by one sentence and its usage: too many arguments', async (words) => {
    // Those that take any number of arguments refuse these words.
    const refused = await refusalOf([...withRequired(words), 'a', 'b', 'c', 'd'])
    expectOneSentence(refused)
  })

  test.each(groups.map((group) => group.name()))(
    'names the commands of wardline %s after a wrong one',
    async (name) => {
      const refused = await refusalOf([name, 'no such', 'command'])
      expectOneSentence(refused)
      expect(refused.usage[0]).toMatch(new RegExp(`^Usage: wardline ${name}`))
    },
  )

  test.each([
    [['nosuch'], "Unknown command 'nosuch'."],
    [['stauts'], "Unknown command 'stauts' (Did you mean status?)"],
    [['audit'], /^Command missing: wardline audit has .*verify, checkpoint/],
    [['alerts', 'acknowledge', 'x'], /^Unknown command 'acknowledge' of wardline alerts: it has list, show, ack, /],
    [['kill', 'a'], 'Option --reason <text> is required.'],
    [['kill', 'a', '--reason'], 'Option --reason <text> needs a value.'],
    [['resume'], 'Argument <id> is missing.'],
    [['tail', '--severity', 'x'], '--severity x is invalid: allowed choices are info, warning, critical, breach.'],
    [['events', '--limit', '0'], '--limit 0 is invalid: it must be a whole number from 1 to 999999.'],
    [['completion', 'x'], '<shell> x is invalid: allowed choices are bash, zsh, fish.'],
  ])('%j is answered: %s', async (words, sentence) => {
    expect((await refusalOf(words)).error).toMatch(sentence)
  })

  // An address may hold a password, and terminals are shared and recorded.
  test('is not repeated where it holds a password', async () => {
    const { error } = await refusalOf(['status', '--url', 'http://user:hunter2@wardline.example'])
    expect(error).toBe('--url http://…@wardline.example is invalid: it must not contain a user or a password.')
  })
})
