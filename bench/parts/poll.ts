import type { BareReply, BareTask } from '../bare-server.ts'
import { instanceId } from '../events.ts'
import { startHelper } from '../helper.ts'
import type { Figure } from '../report.ts'
import { requestText } from '../request.ts'
import { generatorNotes, pairedLoads, ratios, sideOf } from '../rounds.ts'
import { startService } from '../service.ts'
import { median } from '../statistics.ts'

const roundCount = 7
const seconds = 0.7
const connectionCount = 64
const minRatio = 0.8

/** The kill-switch poll of a fleet, with body and as 304, compared with a server that sends the same constant bytes. */
export async function measurePoll(): Promise<Figure[]> {
  const service = await startService()
  const id = instanceId(0)
  const path = `/api/instances/${id}/status`
  await service.call('POST', '/api/heartbeat', [200], { instance_id: id, name: id })
  const sample = await service.call('GET', path, [200])
  const etag = sample.etag
  const bare = startHelper<BareTask, BareReply>('./bare-server.ts')
  const { port } = await bare.ask({ kind: 'get', reply: sample.text, etag: etag ?? 'none' })

  async function figure(name: string, status: number, headers: Record<string, string>): Promise<Figure> {
    const shared = { connections: connectionCount, seconds, expect: [status] }
    const pairs = await pairedLoads(
      roundCount,
      {
        ...shared,
        name: 'service',
        port: service.port,
        requests: [service.prepare('GET', path, undefined, headers)],
      },
      { ...shared, name: 'bare', port, requests: [requestText(port, 'GET', path, headers)] },
    )
    const rounds = ratios(pairs, (result) => result.perSecond)
    return {
      name,
      value: median(rounds),
      unit: '× bare',
      min: minRatio,
      sides: [sideOf('service', pairs.a), sideOf('bare node:http', pairs.b)],
      rounds,
      notes: generatorNotes(pairs.b),
      faults: etag === null ? [...pairs.faults, 'the service sends no ETag'] : pairs.faults,
    }
  }

  const figures = [await figure('answer 200', 200, {})]
  if (etag !== null) figures.push(await figure('If-None-Match, answer 304', 304, { 'If-None-Match': etag }))
  bare.stop()
  await service.stop()
  return figures
}
