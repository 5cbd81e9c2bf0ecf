import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { OTLPLogExporter } from '@opentelemetry/exporter-logs-otlp-proto'
import { BatchLogRecordProcessor, LoggerProvider } from '@opentelemetry/sdk-logs'
import type { EventRow } from '@wardline/contract'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { listenOnFreePort } from '../../testing/control-stream.ts'
import { openTestService, type TestService } from '../../testing/service.ts'

// One agent with the hook program and the official exporter, each reporting its calls as it does for Claude Code.

const program = fileURLToPath(new URL('../../../../sdk/src/wardline-agent.ts', import.meta.url))
/** Each call starts the hook, on whatever busy machine. */
const slow = 60_000

let service: TestService
let url: string
let key: string
let home: string
beforeEach(async () => {
  home = mkdtempSync(join(tmpdir(), 'wardline-witnesses-'))
  service = await openTestService()
  await service.services.ruleRunner.run()
  url = await listenOnFreePort(service.app)
  key = (await service.createKey('agent', ['bot'])).key
})
afterEach(async () => {
  await service[Symbol.asyncDispose]()
  rmSync(home, { recursive: true, force: true })
})

/** Runs the hook before a call. Resolves with its exit code: 2 blocks the call. */
async function hook(id: string, command: string): Promise<number> {
  const child = spawn(process.execPath, ['--conditions=wardline-source', program, 'hook', 'claude-code'], {
    cwd: home,
    env: {
      ...{ PATH: process.env.PATH, HOME: home, WARDLINE_URL: url, WARDLINE_KEY: key },
      WARDLINE_INSTANCE_ID: 'bot',
    },
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  const call = { tool_name: 'Bash', tool_input: { command }, tool_use_id: id, session_id: 's-1', cwd: home }
  child.stdin.end(JSON.stringify({ hook_event_name: 'PreToolUse', ...call }))
  const [code] = await once(child, 'exit')
  return code
}

/** Starts an agent with the SDK, which makes the call of an id, or sends what waits (`flush`). */
async function agentWithSdk() {
  const sdk = new URL('../../../../sdk/src/index.ts', import.meta.url)
  const code = `
    const { createMonitor } = await import('${sdk}')
    const monitor = createMonitor(${JSON.stringify({ url, key, instanceId: 'bot', name: 'bot' })})
    await monitor.start()
    process.on('message', async (callId) => {
      if (callId === 'flush') await monitor.flush()
      else void monitor.reportToolCall({ toolName: 'Bash', callId, sessionId: 's-1', params: { command: 'ls' } })
      process.send('done')
    })
    process.send('started')`
  const child = spawn(process.execPath, ['--conditions=wardline-source', '--input-type=module', '--eval', code], {
    cwd: home,
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  await once(child, 'message')
  return {
    async order(message: string) {
      const done = once(child, 'message')
      child.send(message)
      await done
    },
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await once(child, 'exit')
    },
  }
}

/** Exports the log record of a call. */
async function telemetry(id: string, more: Record<string, string> = {}): Promise<void> {
  const exporter = new OTLPLogExporter({ url: `${url}/v1/logs`, headers: { authorization: `Bearer ${key}` } })
  const provider = new LoggerProvider({ processors: [new BatchLogRecordProcessor({ exporter })] })
  const attributes = { 'event.name': 'tool_result', tool_name: 'Bash', tool_use_id: id, 'session.id': 's-1' }
  provider
    .getLogger('test')
    .emit({ body: 'claude_code.tool_result', attributes: { ...attributes, success: 'true', ...more } })
  await provider.shutdown()
}
async function pass(): Promise<void> {
  service.clock.advance(15_000)
  await service.services.heardBy.write()
  await service.services.logFollower.reconcile()
  await service.services.mismatchWatch.run(true)
}
const events = async () => (await service.call<{ events: EventRow[] }>('GET', '/api/events?limit=500')).body.events
const isReported = async (id: string) => (await events()).some(({ metadata }) => metadata?.callId === id)
const mismatches = async () => (await events()).filter(({ event_type }) => event_type === 'report_mismatch')
const deny = async (tool: string) => {
  const rules = [{ title: 'R', match: { tool }, decision: 'deny' }]
  const body = { policy: { title: 'P', mode: 'enforce', default: 'allow', rules } }
  expect((await service.call('POST', '/api/policies', { body })).status).toBe(201)
}

it('calls count once while both report, and a removed hook is found', { timeout: slow }, async () => {
  let number = 0
  for (let reported = 0; reported < 6; number++) {
    expect(await hook(`toolu_${number}`, 'ls')).toBe(0)
    // On a busy machine the service may not answer within half a second: the hook then loses its report.
    if (!(await isReported(`toolu_${number}`))) continue
    await telemetry(`toolu_${number}`)
    await pass()
    reported += 1
  }
  const calls = (await events()).filter(({ event_type }) => event_type === 'tool_call')
  expect(calls).toHaveLength(12)
  expect(calls.filter(({ metadata }) => metadata?.second_witness)).toHaveLength(6)
  expect(await service.rows('select sum(count) as count from tool_counts')).toMatchObject([{ count: 6 }])
  expect(await mismatches()).toEqual([])
  for (const last = number + 5; number < last; number++) {
    await telemetry(`toolu_${number}`)
    await pass()
  }
  expect(await mismatches()).toMatchObject([{ severity: 'warning', metadata: { missing: 'hook' } }])
})

it('a call that the hook blocked by a policy, and telemetry reports as failed, is blocked once', {
  timeout: slow,
}, async () => {
  await deny('Bash(rm *)')
  expect(await hook('toolu_1', 'rm -rf x')).toBe(2)
  await telemetry('toolu_1', { success: 'false' })
  const found = (await events()).filter(({ by_service }) => !by_service)
  expect(found.map(({ event_type, metadata }) => [event_type, metadata?.second_witness ?? false])).toEqual([
    ['tool_call', true],
    ['tool_blocked', false],
  ])
  expect(await service.rows('select count(*) as count from tool_counts')).toMatchObject([{ count: 0 }])
})

it('an agent with a policy whose hook was never installed is found, and the hook ends it', {
  timeout: slow,
}, async () => {
  await deny('Bash')
  for (let number = 1; number <= 5; number++) {
    await telemetry(`toolu_${number}`)
    await pass()
  }
  expect(await mismatches()).toMatchObject([{ severity: 'critical', metadata: { missing: 'client' } }])
  expect(await hook('toolu_6', 'ls')).toBe(2)
  for (let number = 0; number < 5; number++) await pass()
  const types = (await events()).map(({ event_type }) => event_type)
  expect(types).toContain('report_mismatch_ended')
})

// An SDK collects its reports for a second, so an exporter may be faster.
it('a call of the SDK counts once, whichever of the two reports comes first', { timeout: slow }, async () => {
  await using agent = await agentWithSdk()
  await service.services.heardBy.write()
  for (let number = 0; number < 6; number++) {
    await agent.order(`call_${number}`)
    if (number % 2 === 1) await agent.order('flush')
    await telemetry(`call_${number}`)
    await agent.order('flush')
  }
  const calls = (await events()).filter(({ event_type }) => event_type === 'tool_call')
  expect(calls).toHaveLength(12)
  const seconds = calls.filter(({ metadata }) => metadata?.second_witness)
  expect(seconds.map(({ metadata }) => metadata?.via)).toEqual(Array(6).fill('otlp'))
  await service.services.logFollower.reconcile()
  expect(await service.rows('select sum(count) as count from tool_counts')).toMatchObject([{ count: 6 }])
})
