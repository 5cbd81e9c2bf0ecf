import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, inject, onTestFinished, test } from 'vitest'
import { endWithTests } from './left-behind.ts'
import { freePort, isExternal, needsOwnProcess, newDataDir, patienceMs, startService, until } from './service.ts'

const root = fileURLToPath(new URL('..', import.meta.url))

/** Runs a program in a terminal, which Node cannot without a native module. */
const atTerminal = 'import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))'

function pythonFault(): string | undefined {
  try {
    execFileSync('python3', ['-c', 'import pty, os; os.waitstatus_to_exitcode'], { stdio: 'ignore' })
    return undefined
  } catch {
    return 'python3 of at least 3.9 with the module pty is not installed'
  }
}

/** Starts the service by npm in the background, like a supervisor. Resolves when it answers. */
async function startByNpm(port: number) {
  const npm = spawn('npm', ['start'], {
    cwd: root,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, PORT: String(port), WARDLINE_DATA_DIR: newDataDir() },
    stdio: ['ignore', 'pipe', 'pipe'],
    // A separate group, for the signal that a terminal sends to all of it.
    detached: true,
  })
  endWithTests(npm)
  let output = ''
  for (const stream of [npm.stdout, npm.stderr]) stream.on('data', (chunk) => (output += chunk))
  // Not `exit`: npm may be gone before what its service wrote last is read.
  const ended = once(npm, 'close')
  await until(
    'the service to listen',
    () => (npm.exitCode === null ? output : `ended: ${output}`),
    (text) => text.includes('"msg":"listening"') || text.startsWith('ended'),
    2 * patienceMs,
  )
  return { pid: npm.pid!, ended, output: () => output }
}

// npm passes a signal to its child alone: the service went on without npm, and kept the port.
describe.skipIf(isExternal)('npm start', () => {
  test.each<[string, NodeJS.Signals, (pid: number) => number]>([
    ['SIGTERM to npm, as of a supervisor', 'SIGTERM', (pid) => pid],
    ['SIGINT to npm alone', 'SIGINT', (pid) => pid],
    ['SIGINT to all of its group, as of Ctrl-C', 'SIGINT', (pid) => -pid],
  ])('ends with its service by %s', async (_what, signal, target) => {
    const port = await freePort()
    const { pid, ended, output } = await startByNpm(port)
    process.kill(target(pid), signal)
    await ended
    expect(output()).toContain('"msg":"stopped"')
    await expect(fetch(`http://127.0.0.1:${port}/healthz`)).rejects.toThrow()
  })
})

// Some output appears only on a terminal and in no log.
describe('the first start at a terminal', () => {
  test('prints the admin key and a link that signs in once; later starts print neither', async ({ skip }) => {
    if (isExternal) return skip(needsOwnProcess)
    const missing = pythonFault()
    if (missing !== undefined) return skip(missing)
    const dataDir = newDataDir()
    const port = await freePort()
    async function start() {
      const service = [inject('command'), 'serve']
      const child = spawn('python3', ['-c', atTerminal, process.execPath, ...service], {
        cwd: root,
        env: {
          PATH: process.env.PATH ?? '',
          HOME: dataDir,
          PORT: String(port),
          WARDLINE_DATA_DIR: dataDir,
          TERM: 'xterm',
        },
        stdio: ['pipe', 'pipe', 'inherit'],
      })
      let shown = ''
      child.stdout.on('data', (chunk) => (shown += chunk))
      const screen = await until(
        'the first screen',
        () => (child.exitCode === null ? shown : `ended: ${shown}`),
        (text) => text.includes('Ctrl-C stops the service') || text.startsWith('ended'),
        2 * patienceMs,
      )
      return {
        screen,
        async interrupt() {
          child.stdin.write('\x03')
          if (child.exitCode === null) await once(child, 'exit')
          return child.exitCode
        },
      }
    }
    const first = await start()
    const key = readFileSync(join(dataDir, 'admin-key'), 'utf8').trim()
    expect(first.screen).toContain(key)
    const [, address, code] = /(http:\/\/\S+\/login)#([\w-]{43})\s/.exec(first.screen) ?? []
    expect(address, first.screen).toBe(`http://127.0.0.1:${port}/login`)
    const redeem = () =>
      fetch(`http://127.0.0.1:${port}/api/login`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ code }),
      })
    const answer = await redeem()
    expect(answer.status).toBe(201)
    const opened = (await answer.json()) as { secret: string }
    expect(opened).toMatchObject({ ok: true, scope: 'admin' })
    const cookie = answer.headers.get('set-cookie')!.split(';')[0]!
    const session = await fetch(`http://127.0.0.1:${port}/api/session`, {
      headers: { cookie, 'wardline-session': opened.secret },
    })
    expect(await session.json()).toMatchObject({ scope: 'admin', name: 'first admin' })
    expect((await redeem()).status).toBe(401)
    expect(await first.interrupt()).toBe(0)

    const second = await start()
    expect(second.screen).not.toContain(key)
    expect(second.screen).not.toContain('/login#')
    expect(await second.interrupt()).toBe(0)
  })
})

interface ListedRule {
  id: string
  title: string
  mode: string
  changed_by: string
  firings_24h: number
}

describe.skipIf(isExternal)('the first start on a new database', () => {
  test('brings the starter rules, which observe; a later start does not bring deleted ones back', async () => {
    const service = await startService({ env: { WARDLINE_RULES_DIR: '' } })
    onTestFinished(() => service.stop())
    const list = async () => (await service.call<{ rules: ListedRule[] }>('GET', '/api/rules')).body.rules
    const rules = await list()
    expect(rules.length).toBeGreaterThanOrEqual(10)
    expect(new Set(rules.map(({ mode, changed_by }) => `${mode} ${changed_by}`))).toEqual(new Set(['observe system']))

    await service.call('POST', '/api/heartbeat', { body: { instance_id: 'loop-1', name: 'Loop' } })
    const call = {
      severity: 'info',
      source: 'loop-1',
      instance_id: 'loop-1',
      event_type: 'tool_call',
      description: 'x',
    }
    await service.call('POST', '/api/events/batch', { body: Array.from({ length: 70 }, () => call) })
    await until('a firing of the rule about loops', list, (all) =>
      all.some(({ title, firings_24h }) => title === 'Runaway loop' && firings_24h === 1),
    )
    expect((await service.call('GET', '/api/instances/loop-1')).body).toMatchObject({ status: 'active' })

    for (const { id } of rules) await service.call('DELETE', `/api/rules/${id}`)
    await service.restart()
    expect(await list()).toEqual([])
  })
})
