import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { effort } from '../../test-servers/effort.ts'
import { query } from '../cluster.ts'
import { hasCommands, type Walk, walk } from '../document-walk.ts'
import { addBuilt, freshClone, linkModules, newFolder, restorer, root, trackedFiles } from '../fresh-clone.ts'
import { machinePath } from '../machine-path.ts'
import { canListen, freePort, isExternal, until } from '../service.ts'

// Runs all command blocks of the documents in order, in a clone with only the files in git, with the Node of this
// machine, and compares the output that a block shows. See document-blocks.ts for blocks that cannot run.

/** Only a busy machine takes this long. */
const longestMs = 900_000

const run = promisify(execFile)

const folders: string[] = []
const folder = (): string => {
  const made = newFolder()
  folders.push(made)
  return made
}
afterAll(() => Promise.all(folders.map((made) => rm(made, { recursive: true, force: true }))), longestMs)

/** A receiver that accepts everything and responds like Slack. */
const slack = createServer((_request, answer) => answer.end('ok'))
beforeAll(() => new Promise<void>((resolve) => slack.listen(0, '127.0.0.1', resolve)))
afterAll(() => void slack.close())

interface Clone {
  clone: string
  port: number
}

/** Without packages, dashboard, SDK and bundle that were built before: the service builds all, as at a first start. */
async function newClone(): Promise<Clone> {
  const made = { clone: folder(), port: await freePort() }
  freshClone(made.clone, made.port)
  linkModules(made.clone)
  return made
}

/**
 * Clones for one document after the other, because bundle and compile cache cost more than many a walk. Two, so that one
 * walk computes while the other waits.
 */
const lanes = [lane(), lane()]
let walks = 0

/** Returns a function that walks in a clone in which nothing is left of the walk before. */
function lane(): (work: (made: Clone) => Promise<void>) => Promise<void> {
  let made: Promise<Clone & { restore(): void }> | undefined
  let last: Promise<unknown> = Promise.resolve()
  const make = async () => {
    const { clone, port } = await newClone()
    addBuilt(clone)
    await run(nodeOf(clone), [join(clone, 'tools', 'bundle.ts')])
    return { clone, port, restore: restorer(clone, port) }
  }
  return (work) => {
    const ended = last.then(async () => {
      made ??= make()
      const { restore, ...clone } = await made
      await until(
        'the end of the service of the walk before',
        () => canListen(clone.port),
        (isFree) => isFree,
      )
      restore()
      await work(clone)
    })
    last = ended.catch(() => {})
    return ended
  }
}

const inClone = (work: (made: Clone) => Promise<void>) => lanes[walks++ % lanes.length]!(work)

/** Built once for all other clones. */
async function build(): Promise<void> {
  const options = { cwd: root, encoding: 'buffer', maxBuffer: 1e7 } as const
  const scripts = ['packages/dashboard/build.ts', 'tools/pack-sdk.ts']
  await Promise.all(scripts.map((script) => run(process.execPath, ['--conditions=wardline-source', script], options)))
}
beforeAll(() => (isExternal ? undefined : build()), longestMs)

const nodeOf = (clone: string): string => join(clone, 'node_modules', '.bin', 'node')

/** Like `npm install -g` of the command line: makes `wardline` available in every folder, from the clone's bundle. */
function commandOf(clone: string): string {
  const bin = folder()
  const program = join(clone, 'node_modules', '.cache', 'wardline', 'start.mjs')
  const script = `#!/bin/sh\nexec '${nodeOf(clone)}' --conditions=wardline-source '${program}' "$@"\n`
  writeFileSync(join(bin, 'wardline'), script, { mode: 0o755 })
  return bin
}

async function missingPython(): Promise<string | undefined> {
  return run('python3', ['-c', 'import sys; assert sys.version_info >= (3, 9)']).then(
    () => undefined,
    () => 'python3 of at least 3.9 is not installed',
  )
}

/** The Python program itself: version managers locate it by the home folder, which differs in a walk. */
async function pythonBin(): Promise<string> {
  const { stdout } = await run('python3', ['-c', 'import sys; print(sys.executable)'])
  const bin = folder()
  symlinkSync(stdout.trim(), join(bin, 'python3'))
  return bin
}

/** Prerequisites besides a clone, by document. */
const scenes: Record<string, (made: Clone) => Promise<Partial<Walk>>> = {
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
  'docs/guide/policies.md': async ({ clone }) => {
    const made = folder()
    const [, policy] = /```yaml\n(.*?)```/s.exec(readFileSync(join(root, 'docs/guide/policies.md'), 'utf8'))!
    writeFileSync(join(made, 'policy.yml'), policy!)
    writeFileSync(join(made, 'tools.json'), '[{ "name": "send_email" }, { "name": "volume_delete" }]')
    writeFileSync(join(made, 'sessions.ndjson'), '{ "id": "a", "prompt": "x", "calls": [{ "tool": "volume_delete" }] }')
    return { folder: made, bins: [commandOf(clone)] }
  },
  'examples/incidents/README.md': async ({ clone }) => ({ bins: [commandOf(clone)] }),
  'docs/guide/decoys.md': async ({ clone }) => ({ bins: [commandOf(clone)] }),
  'packages/sdk/README.md': inAgentFolder,
  'clients/python/README.md': inAgentFolder,
  'packages/contract/README.md': fromSource,
  'packages/server/README.md': fromSource,
}

/** An empty folder: the agent gets everything from the service. */
async function inAgentFolder(): Promise<Partial<Walk>> {
  const made = folder()
  return { folder: made, bins: [await pythonBin()], env: { AGENT: made } }
}

/** Node 24 with the installed packages. */
async function fromSource({ clone }: Clone): Promise<Partial<Walk>> {
  const nodeOptions = '--conditions=wardline-source'
  return { env: { NODE_OPTIONS: nodeOptions }, bins: [join(clone, 'node_modules', '.bin')] }
}

/** The real `npm ci` at night if the registry is reachable; otherwise links, because `.ci/run` starts with `npm ci`. */
async function install(): Promise<Record<string, string>> {
  if (effort(true, false)) return { 'npm ci': 'test -x node_modules/.bin/node' }
  const { stdout } = await run('npm', ['config', 'get', 'registry'], { env: { ...process.env, PATH: machinePath } })
  const isReachable = await fetch(stdout.trim(), { signal: AbortSignal.timeout(10_000) }).then(
    () => true,
    () => false,
  )
  return isReachable ? {} : { 'npm ci': 'test -x node_modules/.bin/node' }
}

const receivers = () => ({ 'https://hooks.slack.com': `http://127.0.0.1:${(slack.address() as AddressInfo).port}` })

const migration = 'docs/guide/scaling.md'

describe.skipIf(isExternal)('every command', { concurrent: true, timeout: longestMs }, () => {
  test('in a document is run by a walk of that document, or its block says why not', () => {
    // Generated references show usage lines; ADRs and the changelog are no instructions.
    const others = /^(CHANGELOG\.md|docs\/(reference|adr)\/)/
    const documents = trackedFiles().filter((path) => path.endsWith('.md') && !others.test(path))
    expect(documents.filter(hasCommands).sort()).toEqual([...Object.keys(scenes), migration].sort())
  })

  test.for(Object.keys(scenes))('%s runs as printed', async (document, { skip }) => {
    const missing = await missingPython()
    if (missing !== undefined) return skip(missing)
    const walkIn = async (made: Clone) => walk({ ...made, document, ...(await scenes[document]!(made)) })
    await (document === 'README.md' ? walkIn(await newClone()) : inClone(walkIn))
  })

  test(`${migration} runs as printed, up to a copy on PostgreSQL`, async ({ skip }) => {
    const missing = inject('postgresMissing')
    if (missing !== undefined) return skip(missing)
    const database = new URL(inject('postgresUrl')!)
    const name = `documents_${randomBytes(6).toString('hex')}`
    await query(database.href, `create database ${name}`)
    database.pathname = name
    await inClone((made) => {
      const standIns = {
        'postgres://wardline:…@db.internal/wardline': database.href,
        '/var/lib/wardline/': `${made.clone}/data/`,
      }
      return walk({ ...made, document: migration, bins: [commandOf(made.clone)], standIns })
    })
  })
})
