import { expect, test } from 'vitest'
import { Failure } from '../exit.ts'
import { createFleet } from './fleet.ts'

const options = { agents: 1, seed: 1, speed: 1, signal: AbortSignal.abort(), killLine: () => '' }

// Otherwise every agent would print the password with its address.
test('an option that agents cannot use is named in one sentence, without its value', () => {
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
