import fc from 'fast-check'
import { expect, test } from 'vitest'
import { eventStreamData, readControlMessage } from './simulate-control.ts'

async function* inPieces(text: string, sizes: number[]): AsyncGenerator<string> {
  let position = 0
  for (const size of sizes) {
    yield text.slice(position, position + size)
    position += size
  }
  yield text.slice(position)
}

test('reads the same messages however the stream is cut', async () => {
  const text = ':\n\ndata: {"a":1}\nretry: 2000\n\n: comment\n\ndata: {"b":2}\r\nid: 7\r\n\r\ndata:{"c":3}\n\n'
  await fc.assert(
    fc.asyncProperty(fc.array(fc.integer({ min: 0, max: 12 })), async (sizes) => {
      const found: string[] = []
      for await (const data of eventStreamData(inPieces(text, sizes))) found.push(data)
      expect(found.map((data) => Object.keys(JSON.parse(data)))).toEqual([['a'], ['b'], ['c']])
    }),
  )
})

// A service that was taken over sends a line without an end to fill the memory of every agent.
test('gives up a stream whose line does not end', async () => {
  async function* endless() {
    for (;;) yield 'x'.repeat(10_000)
  }
  for await (const data of eventStreamData(endless())) expect.fail(data)
})

test('takes a control message of its own instance and refuses everything else', () => {
  const message = { instance_id: 'demo-1', action: 'suspend', reason: 'why', version: 3, issued_at: '', signature: '' }
  expect(readControlMessage(JSON.stringify(message), 'demo-1')).toEqual(message)
  expect(readControlMessage(JSON.stringify(message), 'demo-2')).toBeUndefined()
  for (const wrong of [{ action: 'explode' }, { version: '3' }, { version: 1.5 }]) {
    expect(readControlMessage(JSON.stringify({ ...message, ...wrong }), 'demo-1')).toBeUndefined()
  }
  for (const text of ['', 'null', '7', '[]', '{']) expect(readControlMessage(text, 'demo-1')).toBeUndefined()
})
