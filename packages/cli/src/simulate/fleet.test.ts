import { expect, test } from 'vitest'
import { Failure } from '../exit.ts'
import { createFleet } from './fleet.ts'

const options = { agents: 1, seed: 1, speed: 1, signal: AbortSignal.abort(), killLine: () => '' }

// The password would stand in what every agent prints about its address.
test('says in one sentence which option the agents cannot use, and repeats none', () => {
  const cases = [
    { url: 'http://user:secret-word@127.0.0.1:9', key: 'key', says: /^Agents cannot start: url must have no user/ },
    { url: 'http://127.0.0.1:9', key: 'secret word', says: /^Agents cannot start: key must be/ },
  ]
  for (const { url, key, says } of cases) {
    let thrown: unknown
    try {
      createFleet({ ...options, url, key })
    } catch (fault) {
      thrown = fault
    }
    expect(thrown).toBeInstanceOf(Failure)
    expect(thrown).toMatchObject({ message: expect.stringMatching(says), exit: 'usage' })
    expect(String(thrown)).not.toContain('secret')
  }
})
