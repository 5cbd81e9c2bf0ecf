import { execFile, spawn } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { effort } from '../../test-servers/effort.ts'
import { createKey } from '../fleet.ts'
import { machinePath } from '../machine-path.ts'
import { freePort, isExternal, newDataDir, type Service, startService, until } from '../service.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const version: string = JSON.parse(readFileSync(join(root, 'packages/cli/package.json'), 'utf8')).version
const run = promisify(execFile)
/** On a busy machine compiling and installing take minutes. */
const patientMs = 600_000

/** A new user: an empty npm cache, and a registry that does not respond. */
const home = newDataDir()
const bare = {
  HOME: home,
  PATH: machinePath,
  npm_config_registry: 'http://127.0.0.1:9/',
  npm_config_audit: 'false',
  npm_config_update_notifier: 'false',
}

/** Runs the first lines of a guide in an empty folder. */
async function emptyFolder(name: string): Promise<string> {
  const folder = join(newDataDir(), name)
  mkdirSync(folder, { recursive: true })
  return folder
}

describe.skipIf(isExternal)('npm run pack', () => {
  const prefix = join(newDataDir(), 'prefix')
  const command = join(prefix, 'bin', 'wardline')
  /** An installed command uses the Node of PATH. */
  const env = { ...bare, PATH: [dirname(process.execPath), machinePath].join(delimiter) }

  beforeAll(async () => {
    const pack = async (...command: string[]) => {
      const [program = '', ...args] = command
      await run(program, args, { cwd: root, env: bare, maxBuffer: 1e8 })
    }
    if (effort(false, true)) await pack('npm', 'run', 'pack')
    else {
      // Without the checks of `npm run build`, which `.ci/run` runs separately.
      await pack(process.execPath, '--conditions=wardline-source', 'tools/build.ts', '--unchecked')
      await pack(process.execPath, 'tools/pack.ts')
    }
    const file = `./dist/wardline-${version}.tgz`
    await run('npm', ['install', '-g', '--prefix', prefix, file], { cwd: root, env: bare })
  }, patientMs)

  test('makes a file that installs the command globally without a registry', async () => {
    expect((await run(command, ['--version'], { cwd: home, env })).stdout).toBe(`${version}\n`)
    const { stdout } = await run(command, ['config'], { cwd: home, env })
    expect(stdout).toContain('WARDLINE_DATA_DIR=./data')
  })

  test('makes a service that serves the packed SDK and the client for Python', async () => {
    const url = `http://127.0.0.1:${await freePort()}`
    const settings = { PORT: new URL(url).port, WARDLINE_DATA_DIR: join(newDataDir(), 'data') }
    const service = spawn(command, ['serve'], { cwd: home, env: { ...env, ...settings }, stdio: 'ignore' })
    try {
      const asked = () =>
        fetch(`${url}/healthz`).then(
          ({ status }) => status,
          () => 0,
        )
      await until('an answer of the installed service', asked, (status) => status === 200, 180_000)
      const bytes = async (path: string) => Buffer.from(await (await fetch(`${url}${path}`)).arrayBuffer())
      expect((await bytes('/sdk.tgz')).equals(readFileSync(join(root, `dist/wardline-sdk-${version}.tgz`)))).toBe(true)
      expect((await bytes('/wardline.py')).equals(readFileSync(join(root, 'clients/python/wardline.py')))).toBe(true)
    } finally {
      service.kill('SIGKILL')
    }
  })
})

describe.skipIf(isExternal)('an agent with nothing but the address and a key', () => {
  let service: Service
  let key: string
  beforeAll(async () => {
    service = await startService()
    key = await createKey(service, { scope: 'agent', instances: ['far-agent-*'] })
  })
  afterAll(() => service?.stop())
  const seen = async (id: string) => (await service.call<{ name: string }>('GET', `/api/instances/${id}`)).body.name

  test('installs the SDK from the service and is seen, on the Node of the machine', {
    timeout: patientMs,
  }, async () => {
    const folder = await emptyFolder('agent')
    await run('npm', ['install', `${service.baseUrl}/sdk.tgz`], { cwd: folder, env: bare })
    const program = `import { createMonitor } from '@wardline/sdk'
const monitor = createMonitor({ url: process.env.WARDLINE_URL, key: process.env.WARDLINE_KEY, instanceId: 'far-agent-1', name: 'Far agent' })
await monitor.start()
await monitor.stop()
`
    writeFileSync(join(folder, 'agent.mjs'), program)
    await run('node', ['agent.mjs'], {
      cwd: folder,
      env: { ...bare, WARDLINE_URL: service.baseUrl, WARDLINE_KEY: key },
    })
    expect(await seen('far-agent-1')).toBe('Far agent')
    expect(existsSync(join(folder, 'node_modules/@wardline/sdk/dist/index.d.ts'))).toBe(true)
    // Node prints the line of code before the error; the code is minified.
    const forgotten = run('node', ['agent.mjs'], { cwd: folder, env: { ...bare, WARDLINE_URL: service.baseUrl } })
    const { stderr } = await forgotten.catch((fault: { stderr: string }) => fault)
    expect(stderr.slice(0, 1_000)).toContain('(is the environment variable set?)')
  })

  test('installs wardline-agent from the service, globally', { timeout: patientMs }, async () => {
    const prefix = await emptyFolder('prefix')
    await run('npm', ['install', '-g', '--prefix', prefix, `${service.baseUrl}/sdk.tgz`], { cwd: prefix, env: bare })
    const { stdout } = await run(join(prefix, 'bin', 'wardline-agent'), ['--help'], { cwd: prefix, env: bare })
    expect(stdout).toContain('wardline-agent install')
  })

  test('fetches wardline.py from the service and is seen', async () => {
    const folder = await emptyFolder('python')
    await run('curl', ['-sS', '-O', `${service.baseUrl}/wardline.py`], { cwd: folder, env: bare })
    const program = `import os
from wardline import Monitor
with Monitor(os.environ['WARDLINE_URL'], os.environ['WARDLINE_KEY'], 'far-agent-2', 'Far agent in Python'):
    pass
`
    writeFileSync(join(folder, 'agent.py'), program)
    await run('python3', ['agent.py'], {
      cwd: folder,
      env: { ...bare, WARDLINE_URL: service.baseUrl, WARDLINE_KEY: key },
    })
    expect(await seen('far-agent-2')).toBe('Far agent in Python')
  })
})
