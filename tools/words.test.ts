import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'

// Text in this repository uses the words of the field. Each word refused here made a sentence that had to be read
// twice; write the sentence around a noun of the domain instead.

const root = fileURLToPath(new URL('..', import.meta.url))

const refused =
  /\b(anew|who(m)?ever|somebody|anybody|told|tries|unless (told|set|given)|that is all|what (became|becomes) of|can(not)? be had|do(es)? not fit|so that nobody|keeps? waiting|of (its|their|your) own|looks? after|takes? care of|is no (wardline|json))\b/gi

/** Parts of names: `told`, `isTold`, `untold`, `mostBytes`, and constants in another case than the rest. */
const refusedNames =
  /(?<![a-z])(?:un)?told(?![a-z])|(?<=[a-z])Told(?![a-z])|\b(?:anew|unfit|misfit|tries|triesLeft|whoever)\b|\b(?:most|least)(?=[A-Z])|(?<!at )\bmost\b|(?<=[a-z])(?:Tries|Anew|AtMost|AtLeast)(?![a-z])|\bconst [A-Z]+(?:_[A-Z0-9]+)+(?= =)/g

/** Names that others gave: the column `told_at` and an option of `node:dns`. */
const given = /\btold_at\b|\btimeout: 2_000, tries\b/g

interface Text {
  place: string
  text: string
}

/** Values of the wire contract, names of files and commands stand in code spans. */
const prose = (line: string): string => line.replaceAll(/`[^`]*`/g, '`…`')

function linesOf(path: string, text: string): Text[] {
  return text.split('\n').map((line, index) => ({ place: `${path}:${index + 1}`, text: prose(line) }))
}

const literals = /'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`/g

/** A pattern of code, whose quotes begin no text. */
const pattern = /(?<=[(=,:]\s*)\/(?![*/\s])(?:[^/\\\n]|\\.)+\/[dgimsuy]*/g

const comments = /(?<=^|[\s{(,])\/\/ .*|^\s*\/?\*.*$|\/\*\*? .*?\*\//gm
const pythonComments = /(?<=^|\s)#.*$/gm

const at = (path: string, source: string, index: number, text: string): Text => ({
  place: `${path}:${source.slice(0, index).split('\n').length}`,
  text: prose(text),
})

const commentsOf = (path: string, source: string): Text[] =>
  [...source.matchAll(path.endsWith('.py') ? pythonComments : comments)].map(({ 0: text, index }) =>
    at(path, source, index, text),
  )

const blank = (text: string): string => text.replaceAll(/[^\n]/g, ' ')
const withoutComments = (path: string, source: string): string =>
  source.replaceAll(path.endsWith('.py') ? pythonComments : comments, blank)

/** The sentences among the literals of a program: a text with a space in it. What fills a template is code. */
function sentencesOf(path: string, source: string): Text[] {
  const code = withoutComments(path, source).replaceAll(pattern, '/…/')
  return [...code.matchAll(literals)].flatMap(({ 0: literal, index }) => {
    const text = literal.slice(1, -1).replaceAll(/\$?\{[^{}]*\}/g, '…')
    return text.includes(' ') ? [at(path, code, index, text)] : []
  })
}

/** The text of elements: words without a sign of code. */
const elementTexts = /(?<![=-])>([^<>{};=()]*[a-z] [^<>{};=()]*)(?=[<{])/g

const elementTextsOf = (path: string, source: string): Text[] =>
  path.endsWith('.tsx')
    ? [...withoutComments(path, source).matchAll(elementTexts)].map(({ 1: text, index }) =>
        at(path, source, index, text!),
      )
    : []

/** What a test is called: the first argument, after the table of `each` if there is one. */
const testNames = /(?:\b(?:it|test|describe)(?:\.\w+)*\(|\]\)\(|^ *\)\()\s*(['`"])((?:\\.|(?!\1)[^\\])*)\1/gm
const testNamesOf = (path: string, source: string): Text[] =>
  [...source.matchAll(testNames)].map(({ 2: name, index }) => at(path, source, index, name!))

function namesOf(path: string, source: string): Text[] {
  if (path.endsWith('.py')) return []
  const code = withoutComments(path, source).replaceAll(pattern, '/…/')
  const plain = path.endsWith('.tsx') ? code.replaceAll(elementTexts, (text) => `>${blank(text.slice(1))}`) : code
  const names = plain.replaceAll(literals, (text) =>
    text.startsWith('`') ? text.replaceAll(/(^`|\})[^`{}]*?(\$\{|`$)/g, '$1$2') : "''",
  )
  return names.split('\n').map((text, index) => ({ place: `${path}:${index + 1}`, text: text.replaceAll(given, '') }))
}

/** The history up to the last release stays as it was published. */
const unreleased = (changes: string): string => changes.split(/^## (?!Unreleased)/m)[0]!

function textsOf(path: string, content: string): Text[] {
  if (path === 'CHANGELOG.md') return linesOf(path, unreleased(content))
  if (!/\.(tsx?|js|py)$/.test(path)) return linesOf(path, content)
  // The other texts of a test are what strangers send.
  const texts = /\btest\b/.test(path) ? testNamesOf(path, content) : sentencesOf(path, content)
  return [...texts, ...elementTextsOf(path, content), ...commentsOf(path, content)]
}

const faultsIn = (texts: Text[], words: RegExp): string[] =>
  texts.flatMap(({ place, text }) =>
    [...text.matchAll(words)].map(([word]) => `${place} says "${word}": ${text.trim().slice(0, 160)}`),
  )

const faultsOf = (path: string, content: string): string[] => [
  ...faultsIn(textsOf(path, content), refused),
  ...(/\.(tsx?|js)$/.test(path) ? faultsIn(namesOf(path, content), refusedNames) : []),
]

function filesIn(folder: string, kind: RegExp): string[] {
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length))
    .filter((path) => kind.test(path) && !/(^|\/)(node_modules|dist|fixtures|migrations)\//.test(path))
}

const files = [
  ...readdirSync(root).filter((name) => /\.(md|ts)$/.test(name) && name !== 'tools/words.test.ts'),
  ...['docs', 'packages', 'clients', 'examples', 'bench', 'e2e', 'test-servers'].flatMap((folder) =>
    filesIn(folder, /\.(md|tsx?|js|py)$/),
  ),
  ...filesIn('deploy', /\.\w+$|file$/),
]

describe('the words of documents, help, messages, comments, names and tests', () => {
  test('are those of the field', { timeout: 60_000 }, () => {
    expect(files.length).toBeGreaterThan(700)
    expect(files.flatMap((path) => faultsOf(path, readFileSync(join(root, path), 'utf8')))).toEqual([])
  })

  test.each([
    ['docs/guide/a.md', 'Four hours, unless told otherwise.'],
    ['docs/guide/a.md', 'What cannot be had any more is counted.'],
    ['README.md', 'Nothing is sent anew.'],
    ['CHANGELOG.md', '# Changes\n\n## Unreleased\n\n- Be told of every kill.'],
    ['packages/server/src/a.ts', "throw new AppError('invalid', 'The value does not fit.')"],
    ['packages/cli/src/a.ts', 'throw new Failure(`The address is no Wardline.`)'],
    ['packages/contract/src/a.ts', "Type.String({ description: 'Whoever holds the key' })"],
    ['packages/dashboard/src/a.tsx', 'const a = <p>Somebody was here.</p>'],
    ['packages/dashboard/src/a.tsx', '<p>\n  Nothing is sent\n  anew by {name}\n</p>'],
    ['packages/dashboard/src/a.tsx', "<Button title='Whoever holds the key'>Go</Button>"],
    ['clients/python/a.py', "raise ValueError(f'{name} keeps waiting')"],
    ['deploy/values.yaml', 'replicas: 2 # two, so that nobody waits'],
    ['packages/server/src/a.ts', 'const limit = 3 // unless told'],
    ['packages/sdk/src/a.ts', '/** Whoever holds the lock. */'],
    ['e2e/a.test.ts', '/**\n * Begins anew.\n */'],
    ['clients/python/a.py', 'limit = 3  # of its own'],
    ['e2e/a.test.ts', "test('is refused to anybody', () => {})"],
    ['packages/cli/src/a.test.ts', "describe.each(['a'])('a server of its own', () => {})"],
    ['packages/cli/src/a.test.ts', "test.each([\n  ['a'],\n])('is told %s', () => {})"],
    ['packages/server/src/a.ts', 'const told = 1'],
    ['packages/server/src/a.ts', 'if (isTold) return'],
    ['packages/server/src/a.test.ts', 'const text = untold.length'],
    ['packages/sdk/src/a.ts', 'const mostBytes = 1_024'],
    ['bench/a.ts', 'const AT_MOST = 1.2'],
  ])('are refused in %s: %s', (path, content) => {
    expect(faultsOf(path, content)).not.toEqual([])
  })

  test.each([
    ['docs/guide/alerts.md', 'The outcome `told` means sent.'],
    ['CHANGELOG.md', '## Unreleased\n\n- New.\n\n## 0.1.0\n\n- Nobody is told.'],
    ['packages/server/src/a.ts', "const sent = alerts.filter(({ outcome }) => outcome === 'told')"],
    ['packages/server/src/a.ts', 'const last = group.told_at'],
    ['packages/server/src/a.test.ts', "const text = 'Nobody told me.'"],
    ['packages/cli/src/a.ts', "const { WARDLINE_KEY } = env, url = 'https://example.com/anew'"],
  ])('may stay in %s: %s', (path, content) => {
    expect(faultsOf(path, content)).toEqual([])
  })
})
