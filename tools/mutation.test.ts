import { globSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { modules } from './mutation/modules.ts'
import { figuresOf, killedPercent, survivorsOf } from './mutation/report.ts'

const cwd = fileURLToPath(new URL('..', import.meta.url))

test.each(Object.entries(modules))('the sources and tests of the module %s are where it says', (_, module) => {
  const sources = module.mutate.filter((pattern) => !pattern.startsWith('!'))
  const tests = module.tests.map(({ folder }) => `${folder}/*.test.ts`)
  for (const pattern of [...sources, ...tests]) expect(globSync(pattern, { cwd }), pattern).not.toEqual([])
})

test('a mutant that no test notices counts, with or without a test that runs it', () => {
  const at = { start: { line: 1, column: 8 }, end: { line: 2, column: 4 } }
  const mutant = (status: string) => ({ status, mutatorName: 'Block', replacement: '{}', location: at })
  const statuses = ['Killed', 'Killed', 'Killed', 'Timeout', 'Survived', 'NoCoverage', 'CompileError']
  const report = { files: { 'a.ts': { source: 'if (x) {\n  y }', mutants: statuses.map(mutant) } } }
  const figures = figuresOf(report)
  expect(figures).toEqual({ killed: 3, timedOut: 1, survived: 1, notCovered: 1 })
  expect(killedPercent(figures).toFixed(1)).toBe('66.7')
  expect(survivorsOf(report)).toEqual(['a.ts:1:8 Block: { y → {}', 'a.ts:1:8 Block, no test runs it: { y → {}'])
})
