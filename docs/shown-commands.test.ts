import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Command } from 'commander'
import { expect, test } from 'vitest'
import { createProgram } from '../packages/cli/src/command.ts'
import { help } from '../packages/sdk/src/agent/help.ts'

// Every command that a message or a sentence suggests must exist, with all it needs. e2e/documents.test.ts runs whole
// blocks; this covers commands inside sentences.

const root = fileURLToPath(new URL('..', import.meta.url))

const filesIn = (folder: string, kind: RegExp): string[] =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => kind.test(name) && !/node_modules|(^|\/)(dist|fixtures|reference|adr)\/|test/.test(name))
    .map((name) => join(folder, name))
const documents = [
  ...['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'ARCHITECTURE.md', 'bench/README.md'],
  ...['docs', 'packages', 'clients'].flatMap((folder) => filesIn(folder, /\.md$/)),
]
const sources = [
  ...filesIn('packages', /\.[jt]s$/),
  ...filesIn('clients', /\.py$/),
  ...filesIn('deploy', /\.(sh|txt|yaml|service)$/),
  ...filesIn('examples', /\.(ts|py)$/),
]

interface Shown {
  place: string
  /** Words after `wardline`. */
  words: string[]
}

/** A placeholder, written `<id>`, `…` or by the code that fills it in. */
const placeholder = 'x'

/** Words of a shell, up to where the sentence or the text goes on. */
function wordsOf(text: string): string[] {
  const filledIn = text.replaceAll(/\$\{[^{}]*\}/g, placeholder).replaceAll(/<[\w -]+>/g, placeholder)
  // A quote at the end of a word ends the text; one at its beginning holds a word together.
  const [words = ''] =
    /^(?:(?!\s+#)\s*(?:'[^']*'|"[^"]*"|[^\s'"`);|>\\#.,:]|[.,:](?!['"`]|\s|$)))*/.exec(filledIn) ?? []
  return [...words.matchAll(/'[^']*'|"[^"]*"|\S+/g)].map(([word]) => word.replaceAll(/^['"]|['"]$/g, ''))
}

/** A function that puts an id behind a command. */
const completed = /\w\([`'](wardline [^`']*)[`'], /g

function shownIn(path: string): Shown[] {
  const isDocument = path.endsWith('.md')
  // A comment of the code is for those who read the code; that of an example begins with commands for its users.
  const isComment = (line: string) => !isDocument && !path.startsWith('examples/') && /^\s*(\/\/|\*|\/\*|#)/.test(line)
  const begin = isDocument ? '(?<=`(?:npx )?|^\\s*(?:npx )?|\\$\\((?:npx )?)' : '(?<![\\w@/.:_=$-])'
  return readFileSync(join(root, path), 'utf8')
    .split('\n')
    .flatMap((line, index) => {
      if (isComment(line)) return []
      const text = line.replaceAll(completed, `'$1 ${placeholder}'`)
      const found = text.matchAll(new RegExp(`${begin}wardline (?=[a-z])(.*)`, 'g'))
      return [...found].map(([, rest]) => ({ place: `${path}:${index + 1}`, words: wordsOf(rest!) }))
    })
}

/** Why this is not a command that works as it is written; undefined when it is. */
function faultOf(root: Command, words: string[], isDocument: boolean): string | undefined {
  let command = root
  const rest = [...words]
  for (;;) {
    const next = command.commands.find((child) => child.name() === rest[0] || child.aliases().includes(rest[0]!))
    if (!next) break
    command = next
    rest.shift()
  }
  const name = [...words.slice(0, words.length - rest.length)].join(' ')
  if (command === root) return `there is no command ${words[0]}`
  // `wardline alerts` is `wardline alerts list`; the group itself may also be what is meant.
  if (command.commands.length > 0) {
    command = command.commands.find((child) => child.name() === 'list') ?? command
    const isVerb = rest[0]?.startsWith('--') === false && command.registeredArguments.length === 0
    if (isVerb && !isDocument) return `there is no command ${name} ${rest[0]}`
  }
  const given = new Set<string>()
  const args: string[] = []
  while (rest.length > 0) {
    const word = rest.shift()!
    const option = command.options.find(({ long, short }) => [long, short].includes(word.split('=')[0]))
    if (option) {
      given.add(option.attributeName())
      if ((option.required || option.optional) && !word.includes('=')) {
        const value = rest.shift()
        if (value === undefined && !isDocument) return `${name} ${word} needs a value`
        if (option.argChoices && value !== undefined && value !== placeholder && !option.argChoices.includes(value))
          return `${word} of ${name} takes no ${value}`
        while (option.variadic && option.argChoices?.includes(rest[0]!)) rest.shift()
      }
    } else if (word === '--help') return undefined
    else if (word.startsWith('--')) return `${name} has no option ${word}`
    else {
      const argument = command.registeredArguments[args.length] ?? command.registeredArguments.at(-1)
      // The sentence goes on.
      if (argument === undefined || (args.length >= command.registeredArguments.length && !argument.variadic)) break
      if (argument.argChoices && word !== placeholder && !argument.argChoices.includes(word))
        return `${name} takes no ${word}`
      args.push(word)
    }
  }
  // A command alone is named, not to be typed; and a document may speak of one option, since its blocks are run as a whole.
  if (isDocument || (args.length === 0 && given.size === 0)) return undefined
  const missing = command.options.find((option) => option.mandatory && !given.has(option.attributeName()))
  if (missing && missing.defaultValue === undefined) return `${name} needs ${missing.long}`
  const needed = command.registeredArguments.filter(({ required }) => required).length
  return args.length < needed ? `${name} needs ${command.registeredArguments[args.length]!.name()}` : undefined
}

const program = await createProgram()

/** Names by which connections to a database are known to its operator, and words of other languages. */
const others = ['writes', 'migration', 'import', 'cat', 'login', 'owner']

test.each([
  ['sources', sources, 25],
  ['documents', documents, 40],
] as const)('every wardline command in the sentences of %s exists and has what it needs', (_what, files, fewest) => {
  const shown = files.flatMap((path) => shownIn(path))
  expect(shown.length).toBeGreaterThan(fewest)
  const faults = shown
    .filter(({ words }) => !others.includes(words[0]!))
    .flatMap(({ place, words }) => {
      const fault = faultOf(program, words, place.includes('.md:'))
      return fault === undefined ? [] : [`${place} shows "wardline ${words.join(' ')}": ${fault}`]
    })
  expect(faults).toEqual([])
})

test.each([
  ['there is no command', 'wardline keys creat --scope agent', false],
  ['there is no command', 'wardline halt x', false],
  ['has no option', 'wardline kill x --because y', true],
  ['needs --reason', 'wardline kill x --no-wait', false],
  ['needs id', 'wardline kill --reason y', false],
  ['takes no fax', 'wardline channels add fax --name y', false],
  ['takes no fatal', 'wardline tail --severity fatal', true],
])('a command is wrong when it %s: %s', (fault, text, isDocument) => {
  expect(faultOf(program, wordsOf(text.replace('wardline ', '')), isDocument)).toContain(fault)
})

test('every wardline-agent and npm command that is shown exists', () => {
  const scripts = Object.keys(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).scripts)
  const agentCommands = [...help.matchAll(/^ {2}wardline-agent ([\w-]+)/gm)].map(([, name]) => name)
  expect(agentCommands).toHaveLength(6)
  const known = [
    ...['start', 'test', ...scripts.map((name) => `run ${name}`)].map((name) => `npm ${name}`),
    ...[...agentCommands, '--help', '--version'].map((name) => `wardline-agent ${name}`),
  ]
  const unknown = [...documents, ...sources].flatMap((path) =>
    [
      ...readFileSync(join(root, path), 'utf8').matchAll(
        /\b(npm (?:start|test|run [\w:-]+)|wardline-agent (?:--)?[a-z-]+)\b/g,
      ),
    ]
      .map(([, command]) => command!)
      .filter((command) => !known.includes(command))
      .map((command) => `${path}: ${command}`),
  )
  expect(unknown).toEqual([])
})
