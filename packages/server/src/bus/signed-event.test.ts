import { createHmac } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { anyCharacter } from '../../../../test-servers/any-character.ts'
import type { EventFields } from '../db/schema/events.ts'
import { eventRowJson, parseEventRow } from '../features/events/event-row.ts'
import { storedEvent } from '../testing/events.ts'
import { createMac, eventMessage, readEventMessage, signatureOf } from './signed-event.ts'

const mac = createMac(Buffer.alloc(32, 'key'))

/** Texts that look like parts of the surrounding message. */
const text = fc.oneof(
  fc.string({ unit: anyCharacter }).filter((value) => value.isWellFormed()),
  fc.constantFrom(
    ',',
    '"',
    '\\',
    ',"metadata":',
    '","metadata":null}',
    ',"signature":"',
    `,"signature":"${'0'.repeat(64)}"}`,
  ),
)
const maybe = fc.option(text)
const event: fc.Arbitrary<EventFields> = fc
  .record({
    seq: fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }),
    created_at: fc.integer({ min: 0, max: 4_102_444_800_000 }),
    severity: fc.constantFrom('info' as const, 'breach' as const),
    source: text,
    event_type: text,
    instance_id: maybe,
    session_id: maybe,
    ip_address: maybe,
    observed_ip_address: maybe,
    id: fc.uuid(),
    description: text,
    metadata: fc.option(fc.dictionary(text, fc.jsonValue()).map((value) => JSON.stringify(value))),
    by_service: fc.constantFrom(0 as const, 1 as const),
  })
  .map(storedEvent)
  // An address that is the same is stored once.
  .filter(({ ip_address, observed_ip_address: observed }) => observed === null || (observed || null) !== ip_address)

const read = (message: Buffer, by = mac) => readEventMessage(message, signatureOf(message), by)

describe('createMac', () => {
  it('computes HMAC-SHA256', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), fc.uint8Array({ maxLength: 1_000 }), (key, bytes) => {
        expect(createMac(Buffer.from(key))(Buffer.from(bytes))).toEqual(
          createHmac('sha256', key).update(bytes).digest(),
        )
      }),
    )
  })
})

describe('the row of an event', () => {
  it('is read exactly as written, including its metadata', () => {
    fc.assert(
      fc.property(event, (given) => {
        expect(parseEventRow(eventRowJson(given))).toEqual(given)
      }),
    )
  })
})

describe('the message of an event', () => {
  it('is the signed row and can be read with the key', () => {
    fc.assert(
      fc.property(event, (given) => {
        const { text: message, signature } = eventMessage(eventRowJson(given), mac)
        expect(JSON.parse(message)).toEqual({ ...JSON.parse(eventRowJson(given)), signature })
        expect(read(Buffer.from(message))).toEqual({ row: eventRowJson(given) })
        expect(read(Buffer.from(message), createMac(Buffer.alloc(32, 'other')))).toBe('unsigned')
      }),
    )
  })

  // Otherwise an attacker could move a breach to another agent or time by changing a few bits.
  it('is refused if a single byte is changed, added or removed', () => {
    fc.assert(
      fc.property(
        event,
        fc.nat(),
        fc.integer({ min: 1, max: 255 }),
        fc.constantFrom(-1, 0, 1),
        (given, at, bits, by) => {
          const message = Buffer.from(eventMessage(eventRowJson(given), mac).text)
          const place = at % message.length
          const rest = message.subarray(place + (by === 1 ? 0 : 1))
          const changed = by === -1 ? [] : [message[place]! ^ bits]
          expect(read(Buffer.concat([message.subarray(0, place), Buffer.from(changed), rest]))).toBe('unsigned')
        },
      ),
      { numRuns: 1_000 },
    )
  })
})
