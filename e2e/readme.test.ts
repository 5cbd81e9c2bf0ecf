import { execFile, spawn } from 'node:child_process'
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { freePort, isExternal, newDataDir, until } from './service.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const read = (path: string) => readFileSync(join(root, path), 'utf8')
const run = promisify(execFile)

/** The fenced blocks of a document in one language. */
const blocks = (document: string, language: string): string[] =>
  [...document.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'gms'))].map((match) => match[1]!)

const printedPort = 4747
const portIsFree = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })

/** What `npm start` runs, in a folder of its own and with nothing set, as on the first day. */
function startAsPrinted(folder: string, port: number) {
  const [program = '', ...args] = (JSON.parse(read('package.json')).scripts.start as string).split(' ')
  expect(program).toBe('node')
  const absolute = args.map((arg) => (arg.startsWith('packages/') ? join(root, arg) : arg))
  const chosen = port === printedPort ? {} : { PORT: String(port) }
  const env = { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '', ...chosen }
  return spawn(process.execPath, absolute, { cwd: folder, env, stdio: 'ignore' })
}

const folder = newDataDir()
let service: ReturnType<typeof startAsPrinted>
let port = printedPort

/** Runs shell commands in the folder; only a port that is taken here is replaced in them. */
async function shell(script: string): Promise<string> {
  const env = { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '' }
  const text = script.replaceAll(`127.0.0.1:${printedPort}`, `127.0.0.1:${port}`)
  const { stdout } = await run('bash', ['-c', text], { cwd: folder, env })
  return stdout
}

beforeAll(async () => {
  if (isExternal) return
  port = (await portIsFree(printedPort)) ? printedPort : await freePort()
  service = startAsPrinted(folder, port)
  await until(
    'a first answer of /healthz',
    () =>
      fetch(`http://127.0.0.1:${port}/healthz`).then(
        (answer) => answer.status,
        () => 0,
      ),
    (status) => status === 200,
    30_000,
  )
})
afterAll(() => void service?.kill('SIGKILL'))

/** The document's answers with `…` for what differs, as a pattern. */
const pattern = (answer: string): RegExp =>
  new RegExp(
    `^${answer
      .split('…')
      .map((part) => part.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&'))
      .join('.+')}$`,
  )

describe.skipIf(isExternal)('README.md', () => {
  test('and the other documents name only commands that there are', () => {
    const scripts = Object.keys(JSON.parse(read('package.json')).scripts)
    for (const document of ['README.md', 'CONTRIBUTING.md', 'docs/guide/operating.md', 'docs/guide/agents.md']) {
      const named = [...read(document).matchAll(/\bnpm (?:run ([a-z]+)|(start|test))\b/g)].map(
        (match) => match[1] ?? match[2],
      )
      expect(named, document).not.toEqual([])
      expect(
        named.filter((name) => !scripts.includes(name!)),
        document,
      ).toEqual([])
    }
  })

  test('prints a walk that answers as it says', async () => {
    const walk = blocks(read('README.md'), 'bash').find((block) => block.startsWith('KEY=')) ?? ''
    const expected = [...walk.matchAll(/^# (\{.*)$/gm)].map((match) => match[1]!)
    expect(expected.length).toBeGreaterThan(6)
    const mark = '-- end of an answer --'
    const output = await shell(walk.replaceAll(/^# \{.*$/gm, `echo '${mark}'`))
    const answers = output.split(`${mark}\n`).map((answer) => answer.trim())
    expect(answers.pop()).toBe('')
    for (const [index, answer] of expected.entries()) expect(answers[index]).toMatch(pattern(answer))
    expect(answers).toHaveLength(expected.length)
  })
})

describe.skipIf(isExternal)('docs/guide/agents.md', () => {
  test('adds the SDK in five lines, which then guard and report', async () => {
    const adminKey = readFileSync(join(folder, 'data', 'admin-key'), 'utf8').trim()
    const five = blocks(read('docs/guide/agents.md'), 'ts').find((block) => block.includes('@wardline/sdk'))!
    mkdirSync(join(folder, 'node_modules', '@wardline'), { recursive: true })
    symlinkSync(join(root, 'packages', 'sdk'), join(folder, 'node_modules', '@wardline', 'sdk'))
    const more = "console.log((await read('five.ts')).includes('createMonitor'))\nawait monitor.stop()\n"
    const text = five.replaceAll(`127.0.0.1:${printedPort}`, `127.0.0.1:${port}`)
    writeFileSync(join(folder, 'five.ts'), `${text}${more}`)
    const env = { PATH: process.env.PATH ?? '', WARDLINE_KEY: adminKey }
    const args = ['--conditions=wardline-source', 'five.ts']
    const { stdout } = await run(process.execPath, args, { cwd: folder, env })
    expect(stdout.trim()).toBe('true')
    const answer = await fetch(`http://127.0.0.1:${port}/api/events?event_type=tool_call&instance_id=support-bot-1`, {
      headers: { 'x-monitor-key': adminKey },
    })
    const { events } = (await answer.json()) as { events: { metadata: { toolName: string } }[] }
    expect(events[0]?.metadata.toolName).toBe('file-read')
  })
})
