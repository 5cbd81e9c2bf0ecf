import { createMonitor, type Monitor } from '@wardline/sdk'
import { answerTasks } from './helper.ts'

/**
 * `connect`: starts this many agents, and returns when all are connected and receive kills immediately.
 * `await`: waits until the agent's signal aborts; `await all`: until all do. `guard`: calls an empty guarded function.
 */
export type AgentsTask =
  | { kind: 'connect'; url: string; key: string; agents: number }
  | { kind: 'await'; agent: number }
  | { kind: 'await all' }
  | { kind: 'guard'; calls: number }

/** Milliseconds since the epoch, with a fraction, at which the signal aborted; microseconds of one guarded call. */
export type AgentsReply = { at: number; microseconds: number; times: number[] }

export const agentId = (n: number): string => `sdk-agent-${n}`

const connectTimeoutMs = 60_000
const monitors: Monitor[] = []
/** Time at which the signal of each agent aborted. */
const aborted: Promise<number>[] = []

const wallMs = () => performance.timeOrigin + performance.now()

async function connect({ url, key, agents }: Extract<AgentsTask, { kind: 'connect' }>): Promise<void> {
  for (let n = 0; n < agents; n++) {
    const monitor = createMonitor({ url, key, instanceId: agentId(n), name: `Bench agent ${n}` })
    monitors.push(monitor)
    await monitor.start()
    const { signal } = monitor
    aborted.push(new Promise((resolve) => signal.addEventListener('abort', () => resolve(wallMs()))))
  }
  const deadline = performance.now() + connectTimeoutMs
  while (monitors.some(({ health }) => health.stream !== 'open')) {
    if (performance.now() > deadline) throw new Error('Not every agent is connected.')
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

async function guard(calls: number): Promise<number> {
  const tool = monitors.at(-1)!.guardTool('file-read', (path: string) => path.length)
  for (let call = 0; call < calls / 10; call++) await tool('/srv/data/report.txt')
  const startedAt = performance.now()
  for (let call = 0; call < calls; call++) await tool('/srv/data/report.txt')
  return ((performance.now() - startedAt) * 1000) / calls
}

answerTasks<AgentsTask, AgentsReply>(async (task) => {
  if (task.kind === 'connect') await connect(task)
  return {
    at: task.kind === 'await' ? await aborted[task.agent]! : 0,
    microseconds: task.kind === 'guard' ? await guard(task.calls) : 0,
    times: task.kind === 'await all' ? await Promise.all(aborted) : [],
  }
})
