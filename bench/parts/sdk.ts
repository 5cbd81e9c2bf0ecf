import { execFileSync, spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { type AgentsReply, type AgentsTask, agentId } from '../agents.ts'
import { temporaryFolder } from '../cleanup.ts'
import { startHelper } from '../helper.ts'
import type { Figure } from '../report.ts'
import { type Service, startService } from '../service.ts'
import { median, quantile } from '../statistics.ts'

const agentCount = 200
const killMaxMs = 50
const guardedCalls = 20_000
const guardRounds = 5
const guardMaxUs = 50
const packageMaxKb = 126
const hookCalls = 30
const hookMaxMs = 150

/** Delay until an agent has received a kill, and the cost of the SDK for the agent. */
export async function measureSdk(): Promise<Figure[]> {
  const service = await startService()
  const agents = startHelper<AgentsTask, AgentsReply>('./agents.ts')
  await agents.ask({ kind: 'connect', url: `http://127.0.0.1:${service.port}`, key: service.key, agents: agentCount })
  const times: number[] = []
  for (let agent = 0; agent < agentCount - 1; agent++) {
    const aborted = agents.ask({ kind: 'await', agent })
    const startedAt = performance.timeOrigin + performance.now()
    await service.call('POST', `/api/kill/${agentId(agent)}`, [200], { reason: 'benchmark' })
    times.push((await aborted).at - startedAt)
  }
  const rounds: number[] = []
  for (let round = 0; round < guardRounds; round++) {
    rounds.push((await agents.ask({ kind: 'guard', calls: guardedCalls })).microseconds)
  }
  agents.stop()
  const hook = await measureHook(service)
  await service.stop()
  const sorted = Float64Array.from(times).sort()
  return [
    {
      name: `kill to abort, ${agentCount} connected agents, p99`,
      value: quantile(sorted, 0.99),
      unit: 'ms',
      max: killMaxMs,
      sides: [{ name: `${times.length} kills`, p50Ms: quantile(sorted, 0.5), p99Ms: quantile(sorted, 0.99) }],
      notes: [`the slowest took ${sorted.at(-1)!.toFixed(1)} ms`],
      faults: [],
    },
    {
      name: 'guardTool around a no-op, no decoys',
      value: median(rounds),
      unit: 'µs a call',
      max: guardMaxUs,
      sides: [],
      rounds,
      notes: ['the report of each call is queued, sent meanwhile, and part of the figure'],
      faults: [],
    },
    hook,
    packageSize(),
  ]
}

/** A tool call of a coding agent: the compiled command from its start to its response, with decoy checks. */
async function measureHook(service: Service): Promise<Figure> {
  const decoy = { instanceId: agentId(0), type: 'file_path', path: '/srv/vault/keys.txt' }
  await service.call('POST', '/api/honeypots', [201], decoy)
  const home = temporaryFolder()
  const bin = fileURLToPath(new URL('../../packages/sdk/dist/wardline-agent.js', import.meta.url))
  const env = {
    PATH: process.env.PATH ?? '',
    HOME: home,
    WARDLINE_URL: `http://127.0.0.1:${service.port}`,
    WARDLINE_KEY: service.key,
    WARDLINE_INSTANCE_ID: 'bench-coding-agent',
  }
  const input = JSON.stringify({
    hook_event_name: 'PreToolUse',
    session_id: 'bench',
    cwd: home,
    tool_name: 'Bash',
    tool_input: { command: 'cat notes.txt | grep -c total' },
    tool_use_id: 'toolu_bench',
  })
  const faults: string[] = []
  const times: number[] = []
  for (let call = 0; call < hookCalls; call++) {
    const startedAt = performance.now()
    const { status, stderr } = spawnSync(process.execPath, [bin, 'hook', 'claude-code'], { env, input })
    times.push(performance.now() - startedAt)
    if (status !== 0) faults.push(`exit code ${status}: ${stderr}`)
  }
  const sorted = Float64Array.from(times).sort()
  return {
    name: 'hook of a coding agent, p50',
    value: quantile(sorted, 0.5),
    unit: 'ms',
    max: hookMaxMs,
    sides: [{ name: `${times.length} calls`, p50Ms: quantile(sorted, 0.5), p99Ms: quantile(sorted, 0.99) }],
    notes: ['the start of Node is part of the figure'],
    faults,
  }
}

/** The package as published; `npm run build` must have run. */
function packageSize(): Figure {
  const folder = fileURLToPath(new URL('../../packages/sdk', import.meta.url))
  const [packed] = JSON.parse(
    execFileSync('npm', ['pack', '--dry-run', '--json'], { cwd: folder, encoding: 'utf8' }),
  ) as [{ files: { path: string }[]; unpackedSize: number }]
  const isBuilt = packed.files.some(({ path }) => path === 'dist/index.js')
  return {
    name: '@wardline/sdk, unpacked',
    value: packed.unpackedSize / 1000,
    unit: 'kB',
    max: packageMaxKb,
    sides: [],
    notes: [],
    faults: isBuilt ? [] : ['not built: run npm run build first'],
  }
}
