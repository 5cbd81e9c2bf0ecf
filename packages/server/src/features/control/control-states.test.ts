import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createMemoryBus } from '../../bus/memory.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { controlMessage } from './control-message.ts'
import { ControlStates } from './control-states.ts'

let service: TestService
let bot = ''
let count = 0
beforeAll(async () => {
  service = await openTestService()
})
afterAll(() => service[Symbol.asyncDispose]())
beforeEach(async () => {
  bot = `bot-${count++}`
  await service.call('POST', '/api/heartbeat', { body: { instance_id: bot, name: bot } })
})

/** A second instance of the states, on a bus whose connection the test interrupts and restores. */
function openStates({ isShared = false, from = service } = {}) {
  const listeners: ((missedSince: number) => void)[] = []
  const connection = { isUp: true }
  const bus = {
    ...createMemoryBus({ alone: true }),
    onReconnect: (listener: (missedSince: number) => void) => void listeners.push(listener),
    get receivesAll() {
      return connection.isUp
    },
  }
  const states = new ControlStates({ ...from.deps, database: { ...from.deps.database, isShared }, bus })
  return {
    states,
    cut: () => {
      connection.isUp = false
    },
    mend: () => {
      connection.isUp = true
      for (const listener of listeners) listener(service.clock.now())
    },
    hear: (version: number, suspended: boolean, id = bot) => {
      const state = { version, suspended, reason: suspended ? 'heard' : null }
      bus.publishControl(controlMessage(id, state, service.clock.now(), service.deps.controlSigner))
    },
  }
}

/** A kill whose message the second instance does not receive. */
const killWithoutMessage = () => service.call('POST', `/api/kill/${bot}`, { body: { reason: 'unheard' } })
const suspended = (known: { state: { suspended: boolean } } | undefined) => known?.state.suspended

describe('the control states', () => {
  it('answer from memory while every change is received', async () => {
    const { states, hear } = openStates()
    expect(states.peek(bot)).toBeUndefined()
    await states.read(bot)
    expect(suspended(states.peek(bot))).toBe(false)
    hear(1, true)
    expect(states.peek(bot)).toMatchObject({ version: 1, etag: 'W/"1"', state: { suspended: true, reason: 'heard' } })
  })

  // A poll answered "not suspended" from memory would let an agent continue that was killed through another process.
  it('query the database each time while messages may be missed', async () => {
    const { states, cut } = openStates()
    await states.read(bot)
    cut()
    expect(states.peek(bot)).toBeUndefined()
    expect(suspended(await states.read(bot))).toBe(false)
    await killWithoutMessage()
    expect(states.peek(bot)).toBeUndefined()
    expect(suspended(await states.read(bot))).toBe(true)
  })

  // A caller to whom one process confirmed a kill would find the agent still active at another.
  it('query the database each time when several processes share it, even if all messages are received', async () => {
    const { states } = openStates({ isShared: true })
    await states.read(bot)
    expect(states.peek(bot)).toBeUndefined()
    await killWithoutMessage()
    expect(suspended(await states.read(bot))).toBe(true)
  })

  it('return the last known state while the database is unavailable, unless a message may have been missed', async () => {
    const from = await openTestService()
    await from.call('POST', '/api/heartbeat', { body: { instance_id: bot, name: bot } })
    const { states, cut, mend, hear } = openStates({ isShared: true, from })
    await states.read(bot)
    hear(1, true)
    await from[Symbol.asyncDispose]()
    expect(suspended(await states.read(bot))).toBe(true)
    await expect(states.read('another')).rejects.toThrow()
    cut()
    await expect(states.read(bot)).rejects.toThrow()
    mend()
    await expect(states.read(bot)).rejects.toThrow()
  })

  it('discard cached states once all messages are received again', async () => {
    const { states, cut, mend } = openStates()
    await states.read(bot)
    cut()
    await killWithoutMessage()
    mend()
    expect(states.peek(bot)).toBeUndefined()
    expect(suspended(await states.read(bot))).toBe(true)
    expect(suspended(states.peek(bot))).toBe(true)
  })

  it('do not cache what was read before all messages were received again', async () => {
    const { states, cut, mend } = openStates()
    cut()
    const reading = states.read(bot)
    mend()
    expect(suspended(await reading)).toBe(false)
    expect(states.peek(bot)).toBeUndefined()
  })

  it('prefer a message received during a read to the row that was read', async () => {
    const { states, hear } = openStates()
    const readings = [states.read(bot), states.read(bot)]
    hear(2, false)
    hear(1, true)
    for (const known of await Promise.all(readings)) expect(known).toMatchObject({ version: 2 })
    expect(states.peek(bot)).toMatchObject({ version: 2, state: { suspended: false, reason: null } })
  })

  // A replayed resume of last week must not release an agent that was killed since.
  it('ignore messages for an instance that was not read from the database', async () => {
    const { states, hear } = openStates()
    await killWithoutMessage()
    hear(0, false)
    expect(states.peek(bot)).toBeUndefined()
    const reading = states.read(bot)
    hear(0, false)
    expect(suspended(await reading)).toBe(true)
    hear(0, false)
    expect(suspended(states.peek(bot))).toBe(true)
  })

  // An attacker who can publish on the backplane, and recorded a resume before a backup was restored, would undo every kill.
  it('trust the database over messages with a higher version when several processes share it', async () => {
    const { states, hear } = openStates({ isShared: true })
    await states.read(bot)
    await killWithoutMessage()
    hear(9, false)
    expect(suspended(await states.read(bot))).toBe(true)
    const reading = states.read(bot)
    hear(10, false)
    expect(suspended(await reading)).toBe(true)
  })

  it('have no state for an unregistered instance, even after messages for it', async () => {
    const { states, hear } = openStates()
    const reading = states.read('nobody')
    hear(1, true, 'nobody')
    expect(await reading).toBeUndefined()
    expect(states.peek('nobody')).toBeUndefined()
  })
})
