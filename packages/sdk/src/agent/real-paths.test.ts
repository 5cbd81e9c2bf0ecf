import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { realPaths } from './real-paths.ts'

let folder: string
beforeAll(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'wardline-paths-')))
  mkdirSync(join(folder, 'secret'))
  mkdirSync(join(folder, 'work'))
  writeFileSync(join(folder, 'secret', 'token'), 'x')
  symlinkSync(join(folder, 'secret'), join(folder, 'work', 'notes'))
  symlinkSync(join(folder, 'secret', 'token'), join(folder, 'work', 'a.txt'))
})
afterAll(() => rmSync(folder, { recursive: true }))

const found = (args: unknown) => realPaths(args, join(folder, 'work')).map((path) => path.slice(folder.length))

test.each([
  ['a path', { file_path: 'a.txt' }, ['/secret/token']],
  ['a word of a command', { command: 'cat <a.txt|wc -l' }, ['/secret/token']],
  ['a file below a link', { path: './notes/token' }, ['/secret/token']],
  ['a file yet to be made', { path: 'notes/new' }, ['/secret/new']],
  ['an option with a value', ['grep', '--file=a.txt'], ['/secret/token']],
  ['a path deep in the arguments', { edits: [{ file: 'a.txt' }] }, ['/secret/token']],
])('follows %s', (_case, args, paths) => {
  expect(found(args)).toEqual(paths)
})

test('returns nothing for paths without links and for other values', () => {
  for (const args of [{ path: join(folder, 'secret', 'token') }, 'cat package.json', '', null, 7, { a: { b: true } }]) {
    expect(found(args), JSON.stringify(args)).toEqual([])
  }
})

test('checks a bounded number of words', () => {
  const words = Array.from({ length: 10_000 }, (_, place) => `word${place}`).join(' ')
  expect(found({ command: `${words} a.txt` })).toEqual([])
  expect(found({ command: `a.txt ${words}` })).toEqual(['/secret/token'])
})
