import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, inject, test } from 'vitest'
import { freePort, isExternal, needsOwnProcess, newDataDir, patienceMs, until } from './service.ts'

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
