import { expect, it } from 'vitest'
import { SharedRoom } from './shared-room.ts'

/** Takes as much as there is, one by one. */
function fill(room: SharedRoom, keyId: string, instanceId?: string): number {
  let taken = 0
  while (room.take(1, { keyId, instanceId })) taken += 1
  return taken
}

it('gives a key at most half of what the others leave, and keeps a quarter for keys that hold little', () => {
  const room = new SharedRoom(6_400)
  expect([1, 2, 3, 4, 5, 6, 7].map((key) => fill(room, `key ${key}`))).toEqual([3_200, 1_600, 100, 100, 100, 100, 100])
  expect(room.take(100, { keyId: 'small' })).toBe(true)
  expect(room.take(1, { keyId: 'small' })).toBe(false)
  room.give(1_600, { keyId: 'key 2' })
  expect(fill(room, 'small')).toBeGreaterThan(500)
})

it('gives an agent of a key for several at most half of what the other agents of the key leave to it', () => {
  const room = new SharedRoom(6_400)
  expect(fill(room, 'key', 'a')).toBe(1_600)
  expect(fill(room, 'key', 'b')).toBe(800)
  expect(fill(room, 'key', 'c')).toBe(400)
  room.give(1_600, { keyId: 'key', instanceId: 'a' })
  expect(fill(room, 'key', 'b')).toBe(600)
  expect(fill(room, 'other')).toBe(2_300)
})

it('is empty again when all is given back', () => {
  const room = new SharedRoom(6_400)
  for (const instanceId of ['a', 'b']) {
    const owner = { keyId: 'key', instanceId }
    expect(room.take(600, owner)).toBe(true)
    room.give(600, owner)
  }
  expect(fill(room, 'other')).toBe(3_200)
})
