import type { BareReply, BareTask } from '../bare-server.ts'
import { eventBody } from '../events.ts'
import { startHelper } from '../helper.ts'
import type { Figure } from '../report.ts'
import { requestText } from '../request.ts'
import { generatorNotes, pairedLoads, ratios, sideOf } from '../rounds.ts'
import { startService } from '../service.ts'
import { median } from '../statistics.ts'

const eventBytes = 322
const roundCount = 8
const seconds = 1
const targets = [
  { connections: 64, min: 0.58 },
  { connections: 256, min: 0.65 },
]

/** One durable event per request, compared with a server that parses the same bytes and stores nothing. */
export async function measureIngest(): Promise<Figure[]> {
  const service = await startService()
  const bodies = Array.from({ length: 64 }, (_, n) => eventBody(n, eventBytes))
  const sample = await service.call('POST', '/api/events', [201], bodies[0])
  const bare = startHelper<BareTask, BareReply>('./bare-server.ts')
  const { port } = await bare.ask({ kind: 'post', status: 201, reply: sample.text })
  const figures: Figure[] = []
  for (const { connections, min } of targets) {
    const shared = { connections, seconds, expect: [201] }
    const pairs = await pairedLoads(
      roundCount,
      {
        ...shared,
        name: 'service',
        port: service.port,
        requests: bodies.map((body) => service.prepare('POST', '/api/events', body)),
      },
      {
        ...shared,
        name: 'bare',
        port,
        requests: bodies.map((body) => requestText(port, 'POST', '/api/events', {}, body)),
      },
    )
    const rounds = ratios(pairs, (result) => result.perSecond)
    figures.push({
      name: `${connections} connections`,
      value: median(rounds),
      unit: '× bare',
      min,
      sides: [sideOf('service', pairs.a), sideOf('bare node:http', pairs.b)],
      rounds,
      notes: generatorNotes(pairs.b),
      faults: pairs.faults,
    })
  }
  bare.stop()
  await service.stop()
  return figures
}
