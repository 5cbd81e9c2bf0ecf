import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type SentEvent, sentEvents } from './event-stream.ts'

async function* inChunks(text: string, sizes: number[]): AsyncGenerator<string> {
  let rest = text
  for (const size of sizes) {
    yield rest.slice(0, size)
    rest = rest.slice(size)
  }
  yield rest
}

async function read(text: string, sizes: number[] = []): Promise<SentEvent[]> {
  const messages: SentEvent[] = []
  for await (const message of sentEvents(inChunks(text, sizes))) messages.push(message)
  return messages
}

const sent =
  'data: {"type":"heartbeat"}\nretry: 2000\n\n:\n\nevent: gap\ndata: {"a":1}\r\n\r\nid: 7\rdata:x\rdata: y\r\rretry: 5000\n\n'
const expected: SentEvent[] = [
  { retryMs: 2000 },
  { data: '{"type":"heartbeat"}' },
  { event: 'gap', data: '{"a":1}' },
  { data: 'x\ny' },
  { retryMs: 5000 },
]

test('reads data, names and delays of messages', async () => {
  expect(await read(sent)).toEqual(expected)
})

test('reads the same however the text is cut', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.integer({ min: 0, max: 9 }), { maxLength: 60 }), async (sizes) => {
      expect(await read(sent, sizes)).toEqual(expected)
    }),
  )
})

test('drops a message that was cut off, and what it does not know', async () => {
  expect(await read('id: 1\ndata: a\n\nid: 2\ndata: half')).toEqual([{ data: 'a' }])
  expect(await read('color: red\nretry: soon\nid: a\0b\ndata: x\n\n')).toEqual([{ data: 'x' }])
})

// A server that never ends its line would otherwise fill the client's memory.
test('gives up on a message without an end', async () => {
  async function* long() {
    for (let chunks = 0; chunks < 100; chunks++) yield 'x'.repeat(64 * 1024)
  }
  await expect(async () => {
    for await (const _ of sentEvents(long()));
  }).rejects.toThrow('longer than any event')
})

test('ends with garbage as with anything else', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.string({ unit: fc.constantFrom('\n', '\r', ':', 'data', 'id', ' ', 'é', '\0') }),
      async (text) => {
        for (const { data } of await read(text)) expect(data ?? '').toBeTypeOf('string')
      },
    ),
  )
})
