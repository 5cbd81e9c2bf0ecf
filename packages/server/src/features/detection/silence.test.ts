import { expect, test } from 'vitest'
import { effort } from '../../../../../test-servers/effort.ts'
import { seededDraws } from '../../../../../test-servers/seeded-draws.ts'
import { hourMs, minuteMs } from '../../clock.ts'
import { openTestService } from '../../testing/service.ts'

const tickMs = 5_000
const sweepEveryMs = 30_000
const intervalMs = 60_000
const lostShare = 0.005
const restartMs = 40_000

const agentCount = effort(100, 1_000)
const hours = effort(3, 24)
/** Maximum of false reports among 1,000 agents in a day. */
const maxFalse = 5

interface Agent {
  id: string
  nextBeat: number
  restartAt: number
  isGone: boolean
}

// The clients never retry and send nothing but heartbeats, of which one in 200 is lost.
test(`reports at most ${maxFalse} of ${agentCount} agents falsely as offline although heartbeats are lost and agents restart, and a real outage within minutes`, async () => {
  const seed = Math.floor(Math.random() * 2 ** 31)
  const draw = seededDraws(seed)
  const upTo = (max: number) => draw() * max
  await using service = await openTestService()
  const { clock, services } = service
  const start = clock.now()
  const lengthMs = hours * hourMs
  const deployAt = start + lengthMs * 0.6
  const agents = Array.from({ length: agentCount }, (_, index): Agent => {
    const restartAt = start + upTo(lengthMs)
    return { id: `agent-${index}`, nextBeat: start + upTo(intervalMs), restartAt, isGone: false }
  })
  const deployedAt = new Map(agents.map(({ id }) => [id, deployAt + upTo(10 * minuteMs)]))
  const registers = { owner: 'k', max: null, tags: null }
  let beats = 0
  let sweptAt = start

  const tick = async () => {
    clock.advance(tickMs)
    const now = clock.now()
    const due = agents.filter(({ nextBeat, isGone }) => nextBeat <= now && !isGone)
    const arriving: Promise<void>[] = []
    for (const agent of due) {
      const isAway = [agent.restartAt, deployedAt.get(agent.id)!].find((at) => at <= now && now < at + restartMs)
      if (isAway !== undefined) {
        agent.nextBeat = isAway + restartMs
        continue
      }
      agent.nextBeat = now + intervalMs - 5_000 + upTo(10_000)
      beats += 1
      if (draw() < lostShare) continue
      const heartbeat = { instance_id: agent.id, name: agent.id }
      arriving.push(services.heartbeats.beat(heartbeat, { registers, instances: null, keyId: 'k' }))
    }
    await Promise.all(arriving)
    if (now - sweptAt < sweepEveryMs) return
    sweptAt = now
    await services.scout.sweep()
  }
  const reported = () =>
    service.rows<{ instance_id: string; created_at: number }>(
      `select instance_id, created_at from events where event_type = 'instance_offline' order by seq`,
    )
  const outages = () => service.rows(`select * from job_runs where name = 'fleet_outage'`)

  while (clock.now() < start + lengthMs) await tick()
  const before = await reported()
  console.log(
    `silence: seed ${seed}, ${agentCount} agents, ${hours} h, ${beats} heartbeats: ${before.length} called offline, ${(await outages()).length} outages`,
  )
  expect(before.length, `seed ${seed}`).toBeLessThanOrEqual(maxFalse)
  expect(await outages()).toEqual([])

  const [one] = agents as [Agent]
  one.isGone = true
  const missedAt = one.nextBeat
  while (clock.now() < missedAt + 3 * minuteMs) await tick()
  const since = (await reported()).slice(before.length)
  expect(
    since.map(({ instance_id }) => instance_id),
    `seed ${seed}`,
  ).toContain(one.id)

  const half = agents.slice(0, agentCount / 2 + 1)
  for (const agent of half) agent.isGone = true
  const goneAt = clock.now()
  while (clock.now() < goneAt + 2 * minuteMs) await tick()
  const outage = await outages()
  expect(outage, `seed ${seed}`).toHaveLength(1)
  for (let passed = 0; passed < 10 * minuteMs; passed += tickMs) await tick()
  expect(await outages(), `seed ${seed}`).toEqual(outage)
})
