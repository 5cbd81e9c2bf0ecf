import { describe, expect, it } from 'vitest'
import { KnownAgents } from './known-agents.ts'

const state = (version: number, suspended = false) => ({ version, state: { suspended, reason: null } })
const message = (instance_id: string, version: number, action: 'suspend' | 'resume' = 'suspend') => ({
  instance_id,
  action,
  version,
  issued_at: '2026-11-27T00:00:00.000Z',
  signature: '',
  signature_ed25519: '',
})

describe('known agents', () => {
  it('take the newest of what the database said and what was heard since', () => {
    const agents = new KnownAgents()
    agents.note('bot', state(2), undefined)
    const before = agents.get('bot')
    agents.hear(message('bot', 3))
    // The query began before the kill.
    agents.note('bot', state(2), before)
    expect(agents.get('bot')).toEqual(state(3, true))
    agents.hear(message('bot', 2, 'resume'))
    expect(agents.get('bot')).toEqual(state(3, true))
    // After a restore only the database counts.
    agents.note('bot', state(1), agents.get('bot'))
    expect(agents.get('bot')).toEqual(state(1))
  })

  it('hear a kill during the first query', () => {
    const agents = new KnownAgents()
    agents.hear(message('bot', 1))
    agents.note('bot', state(0), undefined)
    expect(agents.get('bot')).toEqual(state(1, true))
  })

  it('are bounded, and those beyond the bound are unknown again', () => {
    const agents = new KnownAgents(2)
    for (const id of ['a', 'b', 'a', 'c']) agents.note(id, state(1, true), agents.get(id))
    expect(['a', 'b', 'c'].map((id) => agents.get(id) !== undefined)).toEqual([true, false, true])
  })
})
