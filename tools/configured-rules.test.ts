import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { root } from './sources.ts'

// The rules that are configuration of Biome and knip, shown by a small house that breaks each. `npm run check` runs
// Biome on the real one.

const broken = {
  'packages/sdk/src/index.ts': "import type { NewEvent } from '@wardline/contract'\nexport type Sent = NewEvent",
  'packages/server/src/index.ts': "import { used } from './exports.ts'\nconsole.log(used, process.env.LEVEL)",
  'packages/server/src/exports.ts':
    'export const used = 1\nexport const forgotten = used\nexport type Unseen = 1\nexport const forTests = 2',
  'packages/server/src/a.test.ts': "import { forTests } from './exports.ts'\nforTests()",
  'packages/server/src/parseText.ts': 'export default function parse() {}',
  'test-servers/long.ts': 'run()\n'.repeat(401),
}
const configuration = ['biome.json', '.gitignore', 'package.json', 'tools/knip.config.ts'].concat(
  ['sdk', 'server'].map((name) => `packages/${name}/package.json`),
)
const small = mkdtempSync(join(tmpdir(), 'small-house-'))
for (const path of configuration) cpSync(join(root, path), join(small, path))
for (const [path, text] of Object.entries(broken)) {
  mkdirSync(dirname(join(small, path)), { recursive: true })
  writeFileSync(join(small, path), text)
}
afterAll(() => rmSync(small, { recursive: true }))

const run = (house: string, program: string, ...options: string[]) =>
  spawnSync(process.execPath, [join(root, 'node_modules', program), ...options], { cwd: house, encoding: 'utf8' })

const knip = (house: string, ...options: string[]) => {
  const fixed = ['--config=tools/knip.config.ts', '--cache', '--no-progress', '--reporter=compact']
  const { status, stdout, stderr } = run(house, 'knip/bin/knip.js', ...fixed, ...options)
  return { status, says: `${stdout}${stderr}`.trim() }
}

test.each([
  ['no file is unused, and what one exports another imports', []],
  ['what only tests import stands in testing/, or is used in its own file as well', ['--production']],
])('%s', (_, options) => {
  expect(knip(root, ...options)).toEqual({ status: 0, says: '' })
})

test('knip finds files and exports that nothing imports, and what only tests import', () => {
  const [all, product] = [[], ['--production']].map((mode) => knip(small, '--no-config-hints', ...mode).says)
  expect(all).toMatch(/^Unused files \(2\)\n.*parseText.ts\n.*long.ts\n.*\n.*: forgotten\n.*\n.*: Unseen$/)
  expect(product).toMatch(/exports.ts: forgotten, forTests$/m)
})

const { stdout: saidByBiome } = run(small, '@biomejs/biome/bin/biome', 'lint', '--reporter=github')

test.each([
  ['noConsole', 'packages/server/src/index.ts'],
  ['noDefaultExport', 'packages/server/src/parseText.ts'],
  ['noExcessiveLinesPerFile', 'test-servers/long.ts'],
  ['noProcessEnv', 'packages/server/src/index.ts'],
  ['noUndeclaredDependencies', 'packages/sdk/src/index.ts'],
  ['useFilenamingConvention', 'packages/server/src/parseText.ts'],
])('Biome finds by %s what breaks it in %s', (rule, path) => {
  expect(saidByBiome).toMatch(new RegExp(`^::error title=lint/\\w+/${rule},file=\\S*/${path}`, 'm'))
})
