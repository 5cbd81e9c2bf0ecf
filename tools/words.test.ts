import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

// Text in this repository uses the words of the field. Each phrase refused here made a sentence that had to be read
// twice; write the sentence around a noun of the domain instead. Work to be done belongs in the issue tracker.

const root = fileURLToPath(new URL('..', import.meta.url))

const phrases =
  'anew|who(?:m)?ever|somebody|anybody|told|tries|unless (?:told|set|given)|that is all|what (?:became|becomes) of|' +
  'can(?:not)? be had|do(?:es)? not fit|so that nobody|keeps? waiting|of (?:its|their|your) own|looks? after|' +
  'takes? care of|is no (?:wardline|json)'
/** A phrase may be wrapped, in a comment too. */
const refused = new RegExp(`\\b(?:${phrases.replaceAll(' ', '\\s+(?:(?:\\*|//|#)\\s+)?')})\\b`, 'gi')

/** Parts of names: `isTold`, `untold`, `mostBytes`, and constants in another case than the rest. */
const refusedNames =
  /\buntold\b|[a-z]Told(?![a-z])|\b(?:unfit|misfit|triesLeft)\b|\b(?:most|least)(?=[A-Z])|(?<=const |let |\.|\{ )most\b|\bmost(?=: | =)|(?<=[a-z])(?:Tries|Anew|AtMost|AtLeast)(?![a-z])|\bconst [A-Z]+(?:_[A-Z0-9]+)+(?= =)|\b(?:TODO|FIXME|XXX)\b/g

/** A former value of the wire contract, and an option of `node:dns`. */
const given = /`told`|\btries: 2\b/g

/** The history up to the last release stays as it was published. */
const unreleased = (path: string, text: string): string =>
  path === 'CHANGELOG.md' ? text.split(/^## (?!Unreleased)/m)[0]! : text

function faultsOf(path: string, content: string): string[] {
  const text = unreleased(path, content).replaceAll(given, '…')
  return (/\.(tsx?|js)$/.test(path) ? [refused, refusedNames] : [refused]).flatMap((words) =>
    [...text.matchAll(words)].map(
      ({ 0: word, index }) => `${path}:${text.slice(0, index).split('\n').length} says "${word}"`,
    ),
  )
}

const paths = globSync(
  [
    '*.md',
    '*.ts',
    '{docs,packages,clients,examples,bench,e2e,test-servers,tools}/**/*.{md,ts,tsx,js,py,css}',
    'deploy/**',
  ],
  {
    cwd: root,
    withFileTypes: true,
    exclude: ['**/node_modules', '**/dist', '**/fixtures', '**/migrations', 'tools/words.test.ts'],
  },
)
  .filter((entry) => entry.isFile())
  .map((entry) => join(entry.parentPath, entry.name).slice(root.length))

test('documents, help, messages, comments, names and tests use the words of the field', () => {
  expect(paths.length).toBeGreaterThan(1000)
  expect(paths.flatMap((path) => faultsOf(path, readFileSync(join(root, path), 'utf8')))).toEqual([])
})

test.each([
  ['README.md', 'Nothing is sent anew, unless told otherwise. What cannot\nbe had any more is counted.'],
  ['CHANGELOG.md', '# Changes\n\n## Unreleased\n\n- Be told of every kill.'],
  ['a.ts', "throw new AppError('invalid', 'The value does not fit.')"],
  ['a.ts', '/** Waits, so\n * that nobody sees it. */'],
  ['a.tsx', '<p>\n  Somebody was\n  here, {name}\n</p>'],
  ['a.py', 'limit = 3  # of its\n# own'],
  ['a.test.ts', "test.each(['a'])('is told %s', () => {})"],
  ['a.ts', 'if (isTold) return untold'],
  ['a.ts', 'const mostBytes = 1_024'],
  ['a.ts', 'const { most } = limits'],
  ['a.ts', 'const AT_MOST = 1.2'],
  ['a.ts', '/** FIXME */'],
])('refused words in %s are seen: %s', (path, content) => {
  expect(faultsOf(path, content)).not.toEqual([])
})

test.each([
  ['upgrade.md', 'The outcome `told` is `sent` now, in most cases at most once.'],
  ['CHANGELOG.md', '## Unreleased\n\n- New.\n\n## 0.1.0\n\n- Nobody is told.'],
  ['a.ts', 'const queryOptions = { timeout: 2_000, tries: 2 }'],
])('what others named may stay in %s: %s', (path, content) => {
  expect(faultsOf(path, content)).toEqual([])
})
