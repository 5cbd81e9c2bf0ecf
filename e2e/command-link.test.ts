import { execFile } from 'node:child_process'
import { copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { beforeAll, expect, test } from 'vitest'
import { machinePath } from './machine-path.ts'
import { newDataDir } from './service.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const launcher = join(root, 'packages/cli/bin/wardline.js')
const { version } = JSON.parse(readFileSync(join(root, 'packages/cli/package.json'), 'utf8'))
const run = promisify(execFile)
// In a new home folder npm would print a notice about its newer versions into the output.
const env = { PATH: machinePath, HOME: newDataDir(), npm_config_update_notifier: 'false' }

let machineNode: string
beforeAll(async () => {
  machineNode = (await run('node', ['--print', 'process.versions.node'], { env })).stdout.trim()
})

test('npx wardline runs from the sources, on the Node of the clone, in the folder of the caller', async () => {
  const { bin } = JSON.parse(readFileSync(join(root, 'packages/cli/package.json'), 'utf8'))
  const clone = newDataDir()
  const links = join(clone, 'node_modules', '.bin')
  mkdirSync(links, { recursive: true })
  mkdirSync(join(clone, 'deep'))
  writeFileSync(join(clone, 'package.json'), '{}')
  symlinkSync(join(root, 'packages/cli', bin.wardline), join(links, 'wardline'))
  symlinkSync(process.execPath, join(links, 'node'))
  const printed = await run('npx', ['wardline', '--version'], { cwd: clone, env })
  expect(printed).toEqual({ stdout: `${version}\n`, stderr: '' })
  const deep = join(clone, 'deep')
  const refused = await run('npx', ['wardline', 'backup', 'copy.db'], { cwd: deep, env }).catch((fault) => fault)
  expect(refused.stderr).toContain(join(deep, 'data', 'wardline.db'))
})

test('the linked file finds the Node of the clone when it is called by its path', async () => {
  expect((await run('node', [launcher, '--version'], { env })).stdout).toBe(`${version}\n`)
  const refused = await run('node', [launcher, 'kill'], { env }).catch((fault) => fault)
  expect(refused.code).toBe(64)
})

test('an installed command on a Node that is too old says so in one line', async () => {
  const bin = join(newDataDir(), 'bin')
  mkdirSync(bin, { recursive: true })
  copyFileSync(launcher, join(bin, 'wardline.mjs'))
  const refused = await run('node', [join(bin, 'wardline.mjs'), '--version'], { env }).catch((fault) => fault)
  expect(refused.code).toBe(1)
  if (Number(machineNode.split('.')[0]) < 24) {
    expect(refused.stderr).toBe(`Wardline needs Node 24.15 or newer, this is ${machineNode}: install a newer Node\n`)
  } else expect(refused.stderr).toContain('dist/main.js')
})
