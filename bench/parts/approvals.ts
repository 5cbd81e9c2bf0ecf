import { randomUUID } from 'node:crypto'
import { type ControlClient, followControl } from '../control-client.ts'
import { instanceId } from '../events.ts'
import type { Figure } from '../report.ts'
import { type Service, startService } from '../service.ts'
import { quantile } from '../statistics.ts'

const agentCount = 100
const warmCount = 50
const pressCount = 300
const maxMs = 100

/** From an operator's press until the agent, which listens on its control stream, holds the grant of its call. */
export async function measureApprovals(): Promise<Figure[]> {
  const service = await startService()
  const agents: ControlClient[] = []
  for (let n = 0; n < agentCount; n++) {
    await service.call('POST', '/api/heartbeat', [200], { instance_id: instanceId(n), name: `Bench agent ${n}` })
    agents.push(await followControl(service, instanceId(n), '?understands=approval'))
  }
  const key = JSON.parse(
    (await service.call('POST', '/api/keys', [201], { scope: 'operator', name: 'Bench operator' })).text,
  ).key as string
  const faults: string[] = []
  await press(service, agents, key, warmCount, faults)
  const { messages, grants } = await press(service, agents, key, pressCount, faults)
  for (const agent of agents) agent.close()
  await service.stop()
  return [
    { ...figureOf('press to message on the control stream', messages), faults },
    { ...figureOf('press to the agent that has the grant', grants), faults },
  ]
}

async function ask(service: Service, agent: number, call: object): Promise<{ id: string; state: string }> {
  const { text } = await service.call('POST', `/api/instances/${instanceId(agent)}/approvals`, [200], call)
  return JSON.parse(text)
}

const newCall = () => ({
  attempt: randomUUID(),
  session_id: 'bench',
  tool: 'send_email',
  args_sha256: randomUUID().replaceAll('-', '').repeat(2),
  policy_id: randomUUID(),
  policy_version: 1,
  rule: 'Mail outside the company',
  approvals: 1,
  wait_seconds: 600,
})

/** Each press follows the grant of the one before it. Returns milliseconds. */
async function press(service: Service, agents: ControlClient[], key: string, count: number, faults: string[]) {
  const [messages, grants]: [number[], number[]] = [[], []]
  for (let n = 0; n < count; n++) {
    const agent = n % agents.length
    const call = newCall()
    const { id } = await ask(service, agent, call)
    const message = agents[agent]!.next()
    const startedAt = performance.now()
    const decided = fetch(`http://127.0.0.1:${service.port}/api/approvals/${id}`, {
      method: 'POST',
      headers: { 'X-Monitor-Key': key, 'Content-Type': 'application/json' },
      body: JSON.stringify({ decision: 'approve' }),
    })
    messages.push((await message) - startedAt)
    const { state } = await ask(service, agent, call)
    grants.push(performance.now() - startedAt)
    if (state !== 'granted') faults.push(`an approved call was answered with ${state}`)
    const { status } = await decided
    if (status !== 200) faults.push(`a press was answered with ${status}`)
  }
  return { messages, grants }
}

function figureOf(name: string, times: readonly number[]): Omit<Figure, 'faults'> {
  const sorted = Float64Array.from(times).sort()
  return {
    name: `${name}, p99`,
    value: quantile(sorted, 0.99),
    unit: 'ms',
    max: maxMs,
    sides: [{ name: `${times.length} presses`, p50Ms: quantile(sorted, 0.5), p99Ms: quantile(sorted, 0.99) }],
    notes: [`the slowest took ${sorted.at(-1)!.toFixed(1)} ms`],
  }
}
