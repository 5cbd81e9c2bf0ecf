import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { effort } from '../../test-servers/effort.ts'
import { seededDraws } from '../../test-servers/seeded-draws.ts'
import { query, sharedSettings, startProcesses, useServers } from '../cluster.ts'
import { judge, maxDoubles, startFlakyReceiver } from '../flaky-receiver.ts'
import { type Service, until } from '../service.ts'

const servers = useServers()

const alerts = effort(480, 800)
/** Each kill may duplicate messages that were delivered but not recorded; with few kills their share is small. */
const rounds = effort(3, 5)
const hour = 3_600_000

test('two processes send the alerts of either, and while both are killed nothing is lost', async () => {
  const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)
  const random = seededDraws(seed)
  const receiver = await startFlakyReceiver(random)
  const settings = await sharedSettings(servers)
  // The processes use the database's clock, which the test moves, so it need not wait for hours.
  await query(
    settings.DATABASE_URL,
    `create schema moved; create table moved.by_ms (ms double precision); insert into moved.by_ms values (0);
     create function moved.clock_timestamp() returns timestamptz language sql volatile as
       $$ select pg_catalog.clock_timestamp() + (select ms from moved.by_ms) * interval '1 millisecond' $$`,
  )
  const runAhead = (ms: number) => query(settings.DATABASE_URL, `update moved.by_ms set ms = ms + ${ms}`)
  const moved = new URL(settings.DATABASE_URL)
  moved.searchParams.set('options', '-c search_path=public,moved,pg_catalog')
  const services = await startProcesses(
    { ...settings, DATABASE_URL: moved.href, ALERT_WEBHOOK_URL: `${receiver.url}/alerts` },
    2,
  )
  const all = (work: (service: Service) => Promise<unknown>) => Promise.all(services.map(work))

  const acknowledged: string[] = []
  let number = 0
  async function report(service: Service): Promise<void> {
    const body = { severity: 'critical', source: 'chaos', event_type: 'policy_violation', description: `${number++}` }
    const answer = await service.call<{ id: string }>('POST', '/api/events', { body }).catch(() => undefined)
    if (answer?.status === 201) acknowledged.push(answer.body.id)
  }

  for (let round = 0; round < rounds; round++) {
    const before = acknowledged.length
    const some = (alerts / rounds) * (0.3 + random() * 0.4)
    const reports = Array.from({ length: alerts / rounds }, (_, index) => report(services[index % 2]!))
    await until(
      'some of the reports',
      async () => acknowledged.length - before,
      (count) => count >= some,
    )
    // One process runs alone for a moment, while the messages of the other are still leased.
    const [first, second] = random() < 0.5 ? services : services.toReversed()
    await first!.kill9()
    await pause(random() * 300)
    await second!.kill9()
    await Promise.all(reports)
    await runAhead(2 * hour)
    await all((service) => service.start())
  }
  receiver.recover()
  for (;;) {
    await all((service) => service.terminate())
    await runAhead(25 * hour)
    await all((service) => service.start())
    await services[0]!.call('POST', '/api/alert-channels/env-webhook/replay')
    const channel = async () => {
      const path = '/api/alert-channels/env-webhook'
      return (await services[1]!.call<{ waiting: number; dead: number; behind: number }>('GET', path)).body
    }
    const isDone = ({ waiting, dead, behind }: Awaited<ReturnType<typeof channel>>) => waiting + dead + behind === 0
    if (await until('the last alert', channel, isDone).catch(() => undefined)) break
  }

  const { lost, strangers, doubles } = judge(acknowledged, receiver.taken)
  console.log(
    `seed ${seed}: ${acknowledged.length} alerts at two processes, ${2 * rounds} kills: ` +
      `${lost.length} lost, ${doubles} doubles (${((100 * doubles) / acknowledged.length).toFixed(1)} %)`,
  )
  expect(acknowledged.length).toBeGreaterThan(alerts / 4)
  expect(lost).toEqual([])
  expect(strangers).toEqual([])
  expect(doubles).toBeLessThanOrEqual(maxDoubles(2 * rounds, acknowledged.length))
  receiver.close()
  await all((service) => service.stop())
}, 900_000)
