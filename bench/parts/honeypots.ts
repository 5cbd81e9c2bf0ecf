import { createHash } from 'node:crypto'
import { instanceId } from '../events.ts'
import { fillDecoys } from '../fill-decoys.ts'
import type { Figure } from '../report.ts'
import { pairedLoads, ratios, sideOf } from '../rounds.ts'
import { type Service, startService } from '../service.ts'
import { median } from '../statistics.ts'

const fewCount = 100
const manyCount = 100_000
const roundCount = 9
const seconds = 0.7
const maxRatio = 1.2
const checkPath = '/api/honeypots/check/key'

/** Checks of keys that are no decoys on one connection: a hundred thousand decoys must not cost more than a hundred. */
export async function measureHoneypots(): Promise<Figure[]> {
  const faults: string[] = []
  const few = await filledService(fewCount, faults)
  const many = await filledService(manyCount, faults)
  const bodies = Array.from({ length: 100 }, (_, n) => ({
    key: createHash('sha256').update(`no decoy ${n}`).digest('base64url'),
    meta: { tool: 'http-request' },
  }))
  const task = (service: Service) => ({
    port: service.port,
    connections: 1,
    requests: bodies.map((body) => service.prepare('POST', checkPath, body)),
    seconds,
    expect: [200],
    mustContain: '{"matched":false}',
  })
  const pairs = await pairedLoads(roundCount, { ...task(many), name: 'many' }, { ...task(few), name: 'few' })
  await few.stop()
  await many.stop()
  const rounds = ratios(pairs, (result) => result.meanMs)
  return [
    {
      name: 'mean at 100,000 decoys',
      value: median(rounds),
      unit: '× at 100',
      max: maxRatio,
      sides: [sideOf('100,000 decoys', pairs.a), sideOf('100 decoys', pairs.b)],
      rounds,
      notes: [],
      faults: [...faults, ...pairs.faults],
    },
  ]
}

/** Starts a service with `count` decoys and asserts that it finds one, because a broken lookup would be fast too. */
async function filledService(count: number, faults: string[]): Promise<Service> {
  const empty = await startService()
  await empty.stop(false)
  fillDecoys(empty.dataDir, count)
  const service = await startService(empty.dataDir)
  const list = await service.call('GET', `/api/honeypots?instance_id=${instanceId(0)}`, [200])
  const listed = (JSON.parse(list.text) as { honeypots: unknown[] }).honeypots.length
  if (listed !== count / 100) faults.push(`instance 0 has ${listed} decoys where ${count / 100} are stored`)
  const decoy = { instanceId: instanceId(0), type: 'api_key', keyType: 'generic' }
  const { key } = JSON.parse((await service.call('POST', '/api/honeypots', [201], decoy)).text) as { key: string }
  const { text } = await service.call('POST', checkPath, [200], { key })
  if (text !== '{"matched":true}') faults.push(`a decoy was not recognised: ${text}`)
  return service
}
