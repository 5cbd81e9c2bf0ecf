import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { symlinkSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { effort } from '../../test-servers/effort.ts'
import { query } from '../cluster.ts'
import { hasCommands, type Walk, walk } from '../document-walk.ts'
import { addBuilt, freshClone, linkModules, newFolder, root, trackedFiles } from '../fresh-clone.ts'
import { machinePath } from '../machine-path.ts'
import { freePort, isExternal } from '../service.ts'

// Every command block of the documents is run, in order, in a clone with nothing but what git has, by the Node of this
// machine; what a block shows as an answer is compared. See document-blocks.ts for blocks that cannot run.

/** Only a machine that is busy with other things takes so long. */
const longestMs = 900_000

const run = promisify(execFile)

const folders: string[] = []
const folder = (): string => {
  const made = newFolder()
  folders.push(made)
  return made
}
afterAll(() => Promise.all(folders.map((made) => rm(made, { recursive: true, force: true }))), longestMs)

/** A receiver that takes everything, and says so as Slack does. */
const slack = createServer((_request, answer) => answer.end('ok'))
beforeAll(() => new Promise<void>((resolve) => slack.listen(0, '127.0.0.1', resolve)))
afterAll(() => void slack.close())

/** In the clone of the README the service builds what it serves, as at a first start. */
async function clone(document: string): Promise<{ clone: string; port: number }> {
  const made = { clone: folder(), port: await freePort() }
  freshClone(made.clone, made.port)
  linkModules(made.clone)
  if (document !== 'README.md') addBuilt(made.clone)
  return made
}

/** Once for all other clones. */
async function build(): Promise<void> {
  const options = { cwd: root, encoding: 'buffer', maxBuffer: 1e7 } as const
  const scripts = ['packages/dashboard/build.ts', 'pack-sdk.ts']
  await Promise.all(scripts.map((script) => run(process.execPath, ['--conditions=wardline-source', script], options)))
}
beforeAll(() => (isExternal ? undefined : build()), longestMs)

/** What `npm install -g` of the command line gives: `wardline` from every folder. */
function commandOf(clone: string): string {
  const bin = folder()
  symlinkSync(join(clone, 'packages', 'cli', 'bin', 'wardline.js'), join(bin, 'wardline'))
  return bin
}

async function missingPython(): Promise<string | undefined> {
  return run('python3', ['-c', 'import sys; assert sys.version_info >= (3, 9)']).then(
    () => undefined,
    () => 'python3 of at least 3.9 is not installed',
  )
}

/** Its own program: what manages versions of Python finds them by the home folder, and a walk has another. */
async function pythonBin(): Promise<string> {
  const { stdout } = await run('python3', ['-c', 'import sys; print(sys.executable)'])
  const bin = folder()
  symlinkSync(stdout.trim(), join(bin, 'python3'))
  return bin
}

/** By document: what its readers have besides a clone. */
const scenes: Record<string, (made: { clone: string; port: number }) => Promise<Partial<Walk>>> = {
  'README.md': async () => ({ standIns: { ...receivers(), ...(await install()) } }),
  'docs/guide/terminal.md': async ({ clone }) => ({
    bins: [commandOf(clone)],
    standIns: { 'https://wardline.example': 'http://127.0.0.1:4747' },
  }),
  'docs/guide/alerts.md': async ({ clone }) => ({ bins: [commandOf(clone)], standIns: receivers() }),
  'docs/guide/operating.md': async ({ clone }) => ({
    bins: [commandOf(clone)],
    standIns: { '/backup/': `${folder()}/` },
  }),
  'docs/guide/agents.md': async ({ clone }) => ({
    bins: [commandOf(clone), await pythonBin()],
    env: { AGENT: folder() },
  }),
  'docs/guide/coding-agents.md': async ({ clone }) => ({
    bins: [commandOf(clone), await pythonBin()],
    env: { AGENT: folder() },
    standIns: { 'https://wardline.example': 'http://127.0.0.1:4747' },
  }),
  'docs/guide/rules.md': async ({ clone }) => ({ bins: [commandOf(clone)] }),
  'packages/sdk/README.md': inAgentFolder,
  'clients/python/README.md': inAgentFolder,
  'packages/contract/README.md': fromSource,
  'packages/server/README.md': fromSource,
}

/** A folder that holds nothing: what the agent needs comes from the service. */
async function inAgentFolder(): Promise<Partial<Walk>> {
  const made = folder()
  return { folder: made, bins: [await pythonBin()], env: { AGENT: made } }
}

/** A program of Node 24 that has the packages. */
async function fromSource({ clone }: { clone: string }): Promise<Partial<Walk>> {
  const nodeOptions = '--conditions=wardline-source'
  return { env: { NODE_OPTIONS: nodeOptions }, bins: [join(clone, 'node_modules', '.bin')] }
}

/** The real `npm ci` at night, if the registry can be reached. Otherwise what is installed here serves: `.ci/run` begins with it. */
async function install(): Promise<Record<string, string>> {
  if (effort(true, false)) return { 'npm ci': 'npm ls node' }
  const { stdout } = await run('npm', ['config', 'get', 'registry'], { env: { ...process.env, PATH: machinePath } })
  const isReachable = await fetch(stdout.trim(), { signal: AbortSignal.timeout(10_000) }).then(
    () => true,
    () => false,
  )
  return isReachable ? {} : { 'npm ci': 'npm ls node' }
}

const receivers = () => ({ 'https://hooks.slack.com': `http://127.0.0.1:${(slack.address() as AddressInfo).port}` })

const migration = 'docs/guide/scaling.md'

describe.skipIf(isExternal)('every command', { concurrent: true, timeout: longestMs }, () => {
  test('in a document is run by a walk of that document, or its block says why not', () => {
    // What is generated shows usage lines; decisions and the history of changes are no instructions.
    const others = /^(CHANGELOG\.md|docs\/(reference|adr)\/)/
    const documents = trackedFiles().filter((path) => path.endsWith('.md') && !others.test(path))
    expect(documents.filter(hasCommands).sort()).toEqual([...Object.keys(scenes), migration].sort())
  })

  test.for(Object.keys(scenes))('%s runs as printed', async (document, { skip }) => {
    const missing = await missingPython()
    if (missing !== undefined) return skip(missing)
    const made = await clone(document)
    await walk({ ...made, document, ...(await scenes[document]!(made)) })
  })

  test(`${migration} runs as printed, up to a copy on PostgreSQL`, async ({ skip }) => {
    const missing = inject('postgresMissing')
    if (missing !== undefined) return skip(missing)
    const made = await clone(migration)
    const database = new URL(inject('postgresUrl')!)
    const name = `documents_${randomBytes(6).toString('hex')}`
    await query(database.href, `create database ${name}`)
    database.pathname = name
    const standIns = {
      'postgres://wardline:…@db.internal/wardline': database.href,
      '/var/lib/wardline/': `${made.clone}/data/`,
    }
    await walk({ ...made, document: migration, bins: [commandOf(made.clone)], standIns })
  })
})
