import { describe, expect, test } from 'vitest'
import { effort } from '../../test-servers/effort.ts'
import { newInstance } from '../fleet.ts'
import { isExternal, needsOwnProcess, type Service, startService } from '../service.ts'
import type { EventRow } from '../shapes.ts'

if (isExternal) process.stdout.write(`The judgement of samples under kills is left out: ${needsOwnProcess}\n`)

interface Baselines {
  baselines: { metric: string; samples: number }[]
  episodes: { id: string }[]
}

const agents = 16
/** Samples for a baseline, followed by an anomaly. */
const calmReports = 14

async function eventsOf(service: Service, id: string, type: string): Promise<EventRow[]> {
  const { body } = await service.call<{ events: EventRow[] }>(
    'GET',
    `/api/events?event_type=${type}&instance_id=${id}&limit=1000`,
  )
  return body.events
}

/**
 * Agents report two metrics, one of them with an anomaly, and the process is killed after a number of responses.
 * Resolves with the number of reports that were stored but not acknowledged.
 */
async function killDuringReports(service: Service, answersBefore: number): Promise<number> {
  const ids = await Promise.all(Array.from({ length: agents }, () => newInstance(service)))
  const answered = new Map(ids.map((id) => [id, 0]))
  let answers = 0
  let killed: Promise<unknown> = Promise.resolve()
  const report = async (id: string) => {
    for (let turn = 0; turn <= calmReports; turn++) {
      const description = JSON.stringify({ calm: 5 + (turn % 2), wild: turn < calmReports ? turn % 2 : 1_000_000 })
      const body = { severity: 'info', source: id, event_type: 'session_metrics', instance_id: id, description }
      const answer = await service.call('POST', '/api/events', { body }).catch(() => undefined)
      if (answer?.status !== 201) return
      answered.set(id, answered.get(id)! + 1)
      answers += 1
      if (answers === answersBefore) killed = service.kill9()
    }
  }
  await Promise.all(ids.map(report))
  await killed
  await service.start()

  let unanswered = 0
  for (const id of ids) {
    const stored = (await eventsOf(service, id, 'session_metrics')).length
    expect(stored, id).toBeGreaterThanOrEqual(answered.get(id)!)
    unanswered += stored - answered.get(id)!
    const { body } = await service.call<Baselines>('GET', `/api/instances/${id}/baselines`)
    expect(body.baselines.find(({ metric }) => metric === 'calm')?.samples ?? 0, id).toBe(stored)
    const reported = (await eventsOf(service, id, 'anomaly_detected')).map(({ metadata }) => metadata?.episode)
    expect(
      body.episodes.map((episode) => episode.id),
      id,
    ).toEqual(reported)
    expect(reported.length, id).toBe(stored > calmReports ? 1 : 0)
  }
  return unanswered
}

describe.skipIf(isExternal)('a report of metrics', () => {
  test('is stored, learnt and reported as an anomaly in one piece, however often the process is killed', async () => {
    const kills = effort(3, 50)
    const service = await startService()
    let unanswered = 0
    for (let count = 1; count <= kills; count++) {
      unanswered += await killDuringReports(service, 1 + ((count * 89) % (agents * calmReports)))
    }
    console.log(`judgement: ${kills} kills, ${unanswered} reports stored whose answer was lost, none in half`)
    await service.stop()
  })
})
