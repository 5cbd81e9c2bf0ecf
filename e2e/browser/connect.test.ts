import { execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { allEvents, beat, createKey, newInstance, unique } from '../fleet.ts'
import { machinePath } from '../machine-path.ts'
import { newDataDir, until } from '../service.ts'
import { nowhereYet, useScreens } from './browser.ts'

const screens = useScreens({ WARDLINE_TRACE_URL: 'https://traces.example.com/trace/{trace_id}' })
const run = promisify(execFile)

const minNode = 20
/** Folders with a Node that agents may run on, by its major version: that of this repository, and those in PATH. */
const nodes = new Map<string, string>()
for (const folder of [dirname(process.execPath), ...machinePath.split(delimiter)]) {
  try {
    const version = execFileSync(join(folder, 'node'), ['--version'], { encoding: 'utf8' })
    const [, major = ''] = /^v(\d+)/.exec(version) ?? []
    if (Number(major) >= minNode && !nodes.has(major)) nodes.set(major, folder)
  } catch {
    // There is none.
  }
}

/** A shell of a new machine: Node and npm, nothing else installed. */
function newMachine(nodeFolder = dirname(process.execPath)) {
  const home = newDataDir()
  const prefix = join(home, 'prefix')
  mkdirSync(prefix)
  const path = [join(prefix, 'bin'), nodeFolder, machinePath].join(delimiter)
  const env = { HOME: home, PATH: path, npm_config_prefix: prefix, npm_config_update_notifier: 'false' }
  return {
    env,
    home,
    /** Runs copied lines. */
    shell: (lines: string) => run('bash', ['-euo', 'pipefail', '-c', lines], { cwd: home, env, maxBuffer: 1e7 }),
  }
}

async function connecting(page: Page, tab: string, agent: string): Promise<string[]> {
  await page.goto('/connect')
  await page.getByRole('tab', { name: tab, exact: true }).click()
  await page.getByLabel('Agent id').fill(agent)
  await page.getByRole('button', { name: 'Create key' }).click()
  await page.getByText('The commands below contain the key').waitFor()
  await page.getByText(`Waiting for the first heartbeat of ${agent}…`).waitFor()
  return await page.locator('figure pre').allTextContents()
}
const connected = (page: Page, agent: string) => page.getByText(`${agent} is connected.`).waitFor()

const hasPython = (() => {
  try {
    execFileSync('python3', ['-c', 'import sys; assert sys.version_info >= (3, 9)'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
})()

/** What a program of the screen prints for an agent, from its start until an operator suspends it. */
const printedBy = (agent: string) => [
  `Connected as ${agent}. To stop it, suspend it in the dashboard.`,
  'Event stored: a tool call, file-read.',
  `${agent} is suspended.`,
]
const linesOf = (output: string) => output.split('\n').filter((line) => /Connected|stored|suspended/.test(line))

/** The variables that a copied line exports. */
const settingsIn = (lines: string) =>
  Object.fromEntries([.../(?<= )(WARDLINE_\w+)=(\S+)/g[Symbol.matchAll](lines)].map(([, name, value]) => [name, value]))

async function suspend(agent: string) {
  const { status, text } = await screens.service.call('POST', `/api/kill/${agent}`, {
    body: { reason: 'Done' },
  })
  expect(status, text).toBe(200)
}

/** Runs a program until it has stored its event, suspends it, and returns what it printed until it ended. */
async function runUntilSuspended(lines: string, agent: string, machine = newMachine()): Promise<string> {
  const { home, env } = machine
  const child = spawn('bash', ['-euo', 'pipefail', '-c', lines], { cwd: home, env: { ...env, PYTHONUNBUFFERED: '1' } })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk))
  const ended = once(child, 'close')
  try {
    await until(
      'the stored event',
      () => output,
      (text) => child.exitCode !== null || text.includes('Event stored'),
      60_000,
    )
    const stored = (await allEvents(screens.service)).filter(({ instance_id }) => instance_id === agent)
    expect(
      stored.map(({ event_type }) => event_type),
      output,
    ).toEqual(['tool_call'])
    await suspend(agent)
    expect(await ended, output).toEqual([0, null])
  } finally {
    child.kill('SIGKILL')
  }
  return output
}

describe('what the screen shows, run as it was copied,', () => {
  test.each([...nodes])('connects a program in JavaScript on Node %s, until it is suspended', async (major, folder) => {
    const page = await screens.signedIn({ at: nowhereYet })
    const agent = unique('scripted')
    const [setup, code, start] = await connecting(page, 'JavaScript', agent)
    // A module of plain JavaScript: Node 20 cannot run TypeScript.
    expect(start).toBe('node agent.mjs')
    const lines = `${setup}\ncat > agent.mjs <<'CODE'\n${code}\nCODE\nnode --version\n${start}`
    const output = await runUntilSuspended(lines, agent, newMachine(folder))
    expect(output).toMatch(new RegExp(`^v${major}\\.`, 'm'))
    expect(linesOf(output)).toEqual(printedBy(agent))
    await connected(page, agent)
    await page.getByRole('link', { name: 'Open agent' }).click()
    await page.getByRole('heading', { name: agent }).waitFor()
  })

  test('connects an exporter of OpenTelemetry, whose events link to their traces', async () => {
    const page = await screens.signedIn({ at: nowhereYet })
    const agent = unique('observed')
    const [environment] = await connecting(page, 'OpenTelemetry', agent)
    const traceId = '5b8efff798038103d269b633813fc60c'
    const names = { 'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': 'file-read' }
    const attributes = Object.entries(names).map(([key, stringValue]) => ({ key, value: { stringValue } }))
    const spans = [{ traceId, spanId: '00000000000000aa', attributes }]
    const body = JSON.stringify({ resourceSpans: [{ scopeSpans: [{ spans }] }] })
    // As an exporter reads these variables.
    await newMachine().shell(
      `${environment}\ncurl -sS --fail-with-body "$OTEL_EXPORTER_OTLP_ENDPOINT/v1/traces" -H "\${OTEL_EXPORTER_OTLP_HEADERS/=/: }" -H 'Content-Type: application/json' -d '${body}'`,
    )
    await connected(page, agent)
    const [event] = (await allEvents(screens.service)).filter(({ instance_id }) => instance_id === agent)
    expect(event).toMatchObject({ event_type: 'tool_call', metadata: { trace_id: traceId } })
    await page.goto(`/events?open=${event!.seq}`)
    const link = page.getByRole('link', { name: 'Open in the tracing tool' })
    expect(await link.getAttribute('href')).toBe(`https://traces.example.com/trace/${traceId}`)
  })

  test('says why a program does not connect', async () => {
    const page = await screens.signedIn({ at: nowhereYet })
    const agent = unique('keyless')
    const [setup = '', code, start] = await connecting(page, 'JavaScript', agent)
    const wrong = setup.replace(/WARDLINE_KEY=.*/, 'WARDLINE_KEY=wl_agent_wrong')
    const failed = newMachine().shell(`${wrong}\ncat > agent.mjs <<'CODE'\n${code}\nCODE\n${start}`)
    await expect(failed).rejects.toMatchObject({ code: 1, stderr: expect.stringMatching(/key/) })
  })

  test('connects a program in Python, which runs until it is suspended', async ({ skip }) => {
    if (!hasPython) return skip('python3 of at least 3.9 is not installed')
    const page = await screens.signedIn({ at: nowhereYet })
    const agent = unique('python')
    const [setup, code, start] = await connecting(page, 'Python', agent)
    const output = await runUntilSuspended(`${setup}\ncat > agent.py <<'CODE'\n${code}\nCODE\n${start}`, agent)
    expect(linesOf(output)).toEqual([...printedBy(agent).slice(0, 2), 'The agent is suspended: Done'])
    await connected(page, agent)
  })

  test('starts any program under the supervisor, whose key proves that a suspension holds it', async () => {
    const page = await screens.signedIn({ at: nowhereYet })
    const agent = unique('any')
    const [install = '', start = ''] = await connecting(page, 'Any program', agent)
    const machine = newMachine()
    await machine.shell(install)
    // Replaces a program that the reader has.
    const lines = start.replace('python3 agent.py', 'sleep 600')
    const child = spawn('bash', ['-c', `exec ${lines.split('\n').at(-1)}`], {
      cwd: machine.home,
      env: { ...machine.env, ...settingsIn(start) },
      stdio: 'ignore',
    })
    try {
      await connected(page, agent)
      await suspend(agent)
      await page.getByRole('link', { name: 'Open agent' }).click()
      await page.getByText('suspended, held by its supervisor').first().waitFor()
    } finally {
      child.kill('SIGTERM')
      await once(child, 'exit')
    }
  })

  test('connects whatever speaks HTTP, with curl', async () => {
    const page = await screens.signedIn({ at: nowhereYet })
    const agent = unique('plain')
    const steps = await connecting(page, 'curl', agent)
    const { stdout } = await newMachine().shell(steps.join('\n'))
    const [connectedAs, stored] = printedBy(agent)
    expect(stdout.trim().split('\n')).toEqual([
      '{"ok":true}',
      connectedAs,
      expect.stringMatching(/^\{"ok":true,"id":/),
      stored,
      '{"suspended":false,"reason":null}',
      '{"matched":false}',
    ])
    await connected(page, agent)
    const { body } = await screens.service.call('GET', `/api/instances/${agent}`)
    expect(body).toMatchObject({ id: agent, name: agent, agent_type: null, version: null })
    await expect(newMachine().shell(steps.join('\n').replace(/wl_agent_\w+/, 'wl_agent_wrong'))).rejects.toMatchObject({
      stdout: expect.not.stringContaining('Connected'),
    })
  })

  test.each([...nodes])(
    'connects Claude Code, Codex, Cursor, Gemini CLI, Copilot CLI, OpenCode, OpenClaw and an MCP server on Node %s',
    async (_, folder) => {
      const page = await screens.signedIn({ at: nowhereYet })
      const machine = newMachine(folder)
      let isInstalled = false
      for (const [tab, tool] of [
        ['Claude Code', 'claude-code'],
        ['Codex', 'codex'],
        ['Cursor', 'cursor'],
        ['Gemini CLI', 'gemini-cli'],
        ['Copilot CLI', 'copilot-cli'],
        ['OpenCode', 'opencode'],
        ['OpenClaw', 'openclaw'],
      ] as const) {
        const agent = unique(tool)
        const [install = '', settings = '', hook = ''] = await connecting(page, tab, agent)
        // All use the same package.
        if (!isInstalled) await machine.shell(install)
        isInstalled = true
        const { stdout } = await machine.shell(`${settings}\n${hook} --yes`)
        expect(stdout).toContain(agent)
        // The first tool call.
        const call = { tool_name: 'Bash', tool_input: { command: 'ls' }, session_id: 'one', cwd: machine.home }
        const child = run('wardline-agent', ['hook', tool], { cwd: machine.home, env: machine.env })
        child.child.stdin!.end(JSON.stringify(call))
        await child
        await connected(page, agent)
      }

      const agent = unique('files')
      const [, settings = ''] = await connecting(page, 'MCP', agent)
      const { command, args, env } = (
        JSON.parse(settings) as { mcpServers: { files: { command: string; args: string[]; env: object } } }
      ).mcpServers.files
      expect(args.slice(0, 2)).toEqual(['mcp-proxy', '--'])
      // Replaces a server that would have to be downloaded from a registry.
      const proxy = spawn(command, [...args.slice(0, 2), 'cat'], {
        cwd: machine.home,
        env: { ...machine.env, ...env },
        stdio: ['pipe', 'ignore', 'ignore'],
      })
      try {
        await connected(page, agent)
      } finally {
        proxy.kill('SIGKILL')
      }
    },
  )
})

// An agent that already runs with another key does not show that the new lines work.
test('is green for a known agent only after a heartbeat that came later than the key', async () => {
  const agent = await newInstance(screens.service, 'known')
  const page = await screens.signedIn({ at: `/connect?agent=${agent}` })
  await page.getByText(`${agent} is already registered.`).waitFor()
  await page.getByRole('button', { name: 'Create key' }).click()
  await page.getByText(`Waiting for the next heartbeat of ${agent}…`).waitFor()
  expect(await page.getByText(`${agent} is connected.`).count()).toBe(0)
  await beat(screens.service, agent)
  await connected(page, agent)
})

test('keeps the key out of address and storage, and the rest in the address', async () => {
  const page = await screens.signedIn({ at: nowhereYet })
  const agent = unique('secret')
  const [setup = ''] = await connecting(page, 'Python', agent)
  const key = /WARDLINE_KEY=(\S+)/.exec(setup)![1]!
  const seen = await page.evaluate('JSON.stringify([location.href, { ...localStorage }, { ...sessionStorage }])')
  expect(seen).not.toContain(key)
  expect(new URL(page.url()).search).toBe(`?tab=python&agent=${agent}`)
  await page.getByRole('tab', { name: 'curl', exact: true }).click()
  await page.getByText(key).first().waitFor()
  // The key is bound to this agent.
  await page.getByLabel('Agent id').fill(`${agent}-2`)
  await page.getByText('wl_agent_…').first().waitFor()
  expect(await page.content()).not.toContain(key)
  await page.reload()
  await page.getByText('Create a key first.').waitFor()
  expect(await page.content()).not.toContain(key)
})

test('creates nothing before a button is pressed, and names the scope that creates keys', async () => {
  const { service } = screens
  const keys = async () => (await service.call<{ keys: unknown[] }>('GET', '/api/keys')).body.keys.length
  const key = await createKey(service, { scope: 'operator' })
  const before = await keys()
  const page = await screens.signedIn({ key })
  await page.keyboard.press('g')
  await page.keyboard.press('c')
  await page.waitForURL('**/connect')
  await page.goto('/connect?agent=new-agent&tab=mcp')
  await page.getByText('Creating keys requires scope admin').waitFor()
  expect(await page.getByRole('button', { name: /^Create key/ }).isDisabled()).toBe(true)
  await page.goto('/connect?simulate=true')
  expect(await page.getByRole('button', { name: 'Start' }).isDisabled()).toBe(true)
  expect(await keys()).toBe(before)
})

test('simulates an attack through the real service, and cleans up', async () => {
  const page = await screens.signedIn()
  const { service } = screens
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox').waitFor()
  await page.keyboard.type('simulate')
  await page.keyboard.press('Enter')
  const dialog = page.getByRole('dialog', { name: 'Simulate an attack' })
  await dialog.getByText('sent to your alert channels').waitFor()
  await dialog.getByRole('button', { name: 'Start' }).click()
  await dialog.getByText('Key revoked and decoy deleted').waitFor()
  await dialog.getByText('breach recorded').waitFor()
  const id = /simulated-[0-9a-f]{8}/.exec((await dialog.textContent()) ?? '')![0]
  const events = (await allEvents(service)).filter(({ instance_id }) => instance_id === id)
  expect(events.map(({ event_type }) => event_type).sort()).toEqual([
    'honeypot_triggered',
    'prompt_injection_detected',
    'tool_blocked',
    'tool_call',
  ])
  const { body } = await service.call<{ honeypots: unknown[] }>('GET', `/api/honeypots?instance_id=${id}`)
  expect(body.honeypots).toEqual([])
  const { keys } = (await service.call<{ keys: { name: string; revoked_at: string | null }[] }>('GET', '/api/keys'))
    .body
  expect(keys.filter(({ name }) => name.includes(id)).map(({ revoked_at }) => revoked_at)).toEqual([expect.any(String)])
  const agent = () => service.call<{ tags: string[] }>('GET', `/api/instances/${id}`)
  expect((await agent()).body.tags).toEqual(['simulated'])
  await dialog.getByRole('button', { name: `Remove ${id}` }).click()
  await page.getByText(`${id} removed from the fleet.`).waitFor()
  expect((await agent()).status).toBe(404)
})

// The last line of agent.mjs stood behind the edge of its box.
test.each([900, 1440])('at %d pixels the boxes show all lines of the programs', async (width) => {
  const page = await screens.signedIn({ at: nowhereYet, width })
  await page.goto('/connect')
  for (const tab of ['JavaScript', 'Python']) {
    await page.getByRole('tab', { name: tab, exact: true }).click()
    await page.getByText(tab === 'Python' ? 'agent.py' : 'agent.mjs', { exact: true }).waitFor()
    const hidden =
      '[...document.querySelectorAll("figure [role=group]")].map((box) => box.scrollHeight - box.clientHeight)'
    expect(Math.max(...((await page.evaluate(hidden)) as number[]))).toBeLessThanOrEqual(0)
  }
})
