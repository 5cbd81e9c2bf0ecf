import { expect, it } from 'vitest'
import { startIdentityProvider } from '../../../../../test-servers/identity-provider.ts'
import { listJobs } from '../../jobs.ts'
import { accounts, as, openServiceWith, publicUrl, setRoles, signIn } from '../../testing/people.ts'
import type { TestService } from '../../testing/service.ts'

const run = async (service: TestService, name: string) => {
  const job = listJobs(service.deps, service.services).find((known) => known.name === name)
  if (!job) throw new Error(`there is no job ${name}`)
  await job.run()
}

it('a stream ends when its person is limited to a team, or to another one', async () => {
  await using provider = await startIdentityProvider({ publicUrl, accounts })
  await using service = await openServiceWith(provider)
  const url = await service.app.listen({ host: '127.0.0.1', port: 0 })
  const limitTo = async (tags?: string[]) => {
    const mapping = { group: 'platform', role: 'operator', ...(tags && { tags }) }
    await setRoles(service, [mapping])
  }
  await limitTo()
  const session = await signIn(service, 'ada')
  const listen = async () => {
    const response = await fetch(`${url}/api/stream`, { headers: as(session).headers })
    expect(response.status).toBe(200)
    const reader = response.body!.getReader()
    await reader.read()
    return reader
  }
  const evaluate = async () => {
    service.clock.advance(11 * 60_000)
    await run(service, 'person-groups')
    await run(service, 'keys')
  }
  for (const tags of [['team:a'], ['team:b'], undefined]) {
    const reader = await listen()
    await limitTo(tags)
    await evaluate()
    for (let isDone = false; !isDone; ) isDone = (await reader.read()).done
  }
  const { body } = await service.call<{ entries: { after: object }[] }>('GET', '/api/audit?action=person.role')
  expect(body.entries.map(({ after }) => after)).toMatchObject([
    { role: 'operator' },
    { tags: ['team:a'] },
    { tags: ['team:b'] },
    { role: 'operator' },
  ])
})
