import { execFileSync } from 'node:child_process'
import { Command, Option } from 'commander'
import { expect, test } from 'vitest'
import { createProgram, createProgramFor } from './command.ts'
import { completionScripts, completionTree } from './completion.ts'

const program = await createProgram()
const tree = completionTree(program)

test('each command is loaded by itself, and is the same as among all', async () => {
  for (const command of program.commands.filter((command) => command.name() !== 'completion')) {
    const { commands } = await createProgramFor(command.name())
    expect(commands.map((loaded) => loaded.name())).toEqual([command.name()])
    expect(completionTree(commands[0]!)).toEqual(completionTree(command))
  }
  for (const name of [undefined, 'nosuch', 'toString']) {
    expect((await createProgramFor(name)).commands).toHaveLength(program.commands.length)
  }
})

/** What bash offers for the last of the words. */
function offered(...words: string[]): string[] {
  const script = `${completionScripts.bash(tree)}
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _wardline; printf '%s\\n' "\${COMPREPLY[@]}"`
  const output = execFileSync('bash', ['-c', script, 'bash', 'wardline', ...words], { encoding: 'utf8' })
  return output.split('\n').filter((line) => line !== '')
}

test('bash offers commands, then their commands and options, then the choices of an option', () => {
  expect(offered('')).toEqual(expect.arrayContaining(['serve', 'kill', 'tail', '--version']))
  expect(offered('ke')).toEqual(['keys'])
  expect(offered('keys', 're')).toEqual(['revoke'])
  expect(offered('keys', 'create', '--sc')).toEqual(['--scope'])
  expect(offered('keys', 'create', '--name', 'me', '--scope', '')).toEqual(['agent', 'viewer', 'operator', 'admin'])
  expect(offered('events', 'export', '--format', 'c')).toEqual(['csv', 'cef'])
  expect(offered('kill', 'some-bot', '--re')).toEqual(['--reason'])
  // File names come from bash itself where nothing is offered.
  expect(offered('events', 'export', '--output', '')).toEqual([])
})

test('zsh and fish get a line for every command and option', () => {
  const [zsh, fish] = [completionScripts.zsh(tree), completionScripts.fish(tree)]
  for (const { path, options } of tree) {
    expect(zsh).toContain(`    ('${path}') compadd -- `)
    for (const { name } of options) expect(fish).toContain(`'__wardline_at "${path}"' -l ${name.slice(2)} `)
  }
})

test('quotes in a description cannot end the line that holds it', () => {
  const program = new Command('wardline')
  program
    .command('say')
    .description(`it's \\ "so"`)
    .addOption(new Option('--to <whom>', `don't`).choices(['a', 'b']))
  const fish = completionScripts.fish(completionTree(program))
  expect(fish).toContain(String.raw`-d 'it\'s \\ "so"'`)
  expect(fish).toContain(String.raw`-x -a 'a b' -d 'don\'t'`)
})
