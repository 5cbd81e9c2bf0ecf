import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'

// Text in this repository uses the words of the field. Each word refused here made a sentence that had to be read
// twice; write the sentence around a noun of the domain instead.

const root = fileURLToPath(new URL('.', import.meta.url))

const refused =
  /\b(anew|who(m)?ever|somebody|anybody|told|tries|unless (told|set|given)|that is all|what (became|becomes) of|can(not)? be had|do(es)? not fit|so that nobody|keeps? waiting|of (its|their|your) own|looks? after|takes? care of|is no (wardline|json))\b/gi

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

/** The sentences among the literals of a program: a text with a space in it. What fills a template is code. */
function sentencesOf(path: string, source: string): Text[] {
  const code = source.replaceAll(/^\s*(\/\/|\/?\*|#).*$/gm, '').replaceAll(pattern, '/…/')
  return [...code.matchAll(literals)].flatMap(({ 0: literal, index }) => {
    const text = literal.slice(1, -1).replaceAll(/\$?\{[^{}]*\}/g, '…')
    const line = code.slice(0, index).split('\n').length
    return text.includes(' ') ? [{ place: `${path}:${line}`, text: prose(text) }] : []
  })
}

/** The history up to the last release stays as it was published. */
const unreleased = (changes: string): string => changes.split(/^## (?!Unreleased)/m)[0]!

function textsOf(path: string, content: string): Text[] {
  if (path === 'CHANGELOG.md') return linesOf(path, unreleased(content))
  return /\.(ts|js|py)$/.test(path) ? sentencesOf(path, content) : linesOf(path, content)
}

const faultsOf = (path: string, content: string): string[] =>
  textsOf(path, content).flatMap(({ place, text }) =>
    [...text.matchAll(refused)].map(([word]) => `${place} says "${word}": ${text.trim().slice(0, 160)}`),
  )

function filesIn(folder: string, kind: RegExp): string[] {
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length))
    .filter((path) => kind.test(path) && !/(^|\/)(node_modules|dist|fixtures|migrations)\/|test/.test(path))
}

const files = [
  ...readdirSync(root).filter((name) => name.endsWith('.md')),
  ...filesIn('docs', /\.md$/),
  ...filesIn('packages', /\.(md|ts|js)$/),
  ...filesIn('clients', /\.(md|py)$/),
  ...filesIn('deploy', /\.\w+$|file$/),
  ...filesIn('examples', /\.(ts|py)$/),
  'bench/README.md',
]

describe('the words of documents, help and messages', () => {
  test('are those of the field', () => {
    expect(files.length).toBeGreaterThan(400)
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
    ['clients/python/a.py', "raise ValueError(f'{name} keeps waiting')"],
    ['deploy/values.yaml', 'replicas: 2 # two, so that nobody waits'],
  ])('are refused in %s: %s', (path, content) => {
    expect(faultsOf(path, content)).not.toEqual([])
  })

  test.each([
    ['docs/guide/alerts.md', 'The outcome `told` means sent.'],
    ['CHANGELOG.md', '## Unreleased\n\n- New.\n\n## 0.1.0\n\n- Nobody is told.'],
    ['packages/server/src/a.ts', 'const told = alerts.filter(({ outcome }) => outcome === `told`)'],
  ])('may stay in %s: %s', (path, content) => {
    expect(faultsOf(path, content)).toEqual([])
  })
})
