import { execFile } from 'node:child_process'
import { copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
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

interface LockedPackage {
  os?: string | string[]
  cpu?: string | string[]
  bin?: Record<string, string>
}

const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'))
const nodes = (Object.entries(packages) as [string, LockedPackage][]).flatMap(([path, { os, cpu, bin }]) =>
  bin?.node === undefined ? [] : [{ path, platform: String(os), arch: String(cpu), file: bin.node }],
)

test('the lock file has a Node for each platform', () => {
  const platforms = nodes.map(({ platform, arch }) => `${platform} ${arch}`)
  expect(platforms.toSorted()).toEqual(['darwin arm64', 'darwin x64', 'linux arm64', 'linux x64', 'win32 x64'])
})

test.each(nodes)('the linked file finds $path/$file on $platform $arch', async ({ path, platform, arch, file }) => {
  const clone = newDataDir()
  const bin = join(clone, 'packages/cli/bin')
  const own = join(clone, path, file)
  for (const folder of [bin, join(clone, 'packages/cli/src'), dirname(own)]) mkdirSync(folder, { recursive: true })
  copyFileSync(launcher, join(bin, 'wardline.js'))
  writeFileSync(join(clone, 'package.json'), '{ "type": "module" }')
  writeFileSync(join(clone, 'packages/cli/src/main.js'), '')
  writeFileSync(own, '#!/bin/sh\necho "own $2 $3"\n', { mode: 0o755 })
  // The launcher on another machine, with a Node that is too old.
  const machine = { platform, arch, versions: { node: '20.1.0' } }
  const disguise = `for (const [name, value] of Object.entries(${JSON.stringify(machine)})) Object.defineProperty(process, name, { value })`
  const args = ['--import', `data:text/javascript,${encodeURIComponent(disguise)}`, join(bin, 'wardline.js')]
  expect(await run('node', [...args, 'events', '--json'], { env })).toEqual({
    stdout: 'own events --json\n',
    stderr: '',
  })
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
