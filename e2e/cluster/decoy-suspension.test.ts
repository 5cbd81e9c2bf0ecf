import { expect, test } from 'vitest'
import { effort } from '../../test-servers/effort.ts'
import { sharedSettings, startProcesses, useServers } from '../cluster.ts'
import { killDuringHits, suspendingEnv } from '../decoy-suspensions.ts'
import { newInstance } from '../fleet.ts'
import type { Service } from '../service.ts'

let services: Service[]
const servers = useServers({
  async open() {
    services = await startProcesses({ ...(await sharedSettings(servers)), ...suspendingEnv }, 2)
  },
  async close() {
    await Promise.all(services?.map((service) => service.stop()) ?? [])
  },
})

test('on PostgreSQL a suspension is stored with its hit or not at all, however often the process is killed', async () => {
  const kills = effort(4, 40)
  let unanswered = 0
  for (let count = 1; count <= kills; count++) {
    unanswered += await killDuringHits(services[count % 2]!, 1 + ((count * 5) % 20))
  }
  console.log(
    `decoy suspensions on PostgreSQL: ${kills} kills, ${unanswered} stored whose answer was lost, none in half`,
  )
})

test('two processes race for the last places under the brake', async () => {
  const settings = { ...(await sharedSettings(servers)), ...suspendingEnv, WARDLINE_AUTO_SUSPEND_PER_MINUTE: '5' }
  const racing = await startProcesses(settings, 2)
  const [one, other] = racing as [Service, Service]
  const ids = await Promise.all(Array.from({ length: 30 }, () => newInstance(one)))
  const planted = await one.call<{ key: string }>('POST', '/api/honeypots', {
    body: { instanceId: ids[0], type: 'api_key', keyType: 'aws' },
  })
  const answers = await Promise.all(
    ids.map((id, index) =>
      (index % 2 === 0 ? one : other).call<{ matched: boolean }>('POST', '/api/honeypots/check/key', {
        body: { key: planted.body.key, meta: { instance_id: id } },
      }),
    ),
  )
  expect(answers.filter(({ body }) => body.matched)).toHaveLength(30)
  const brake = await other.call<{ engaged: boolean; refused: number; suspended: number }>('GET', '/api/brake')
  expect(brake.body).toMatchObject({ engaged: true, refused: 25, suspended: 5 })
  await Promise.all(racing.map((service) => service.stop()))
})
