import type { Socket } from 'node:net'
import { afterAll, describe, expect, test, vi } from 'vitest'
import { createTestCertificate } from '../../../../../../test-servers/certificate.ts'
import type { Destination, Egress } from '../../../egress/egress.ts'
import {
  checkMessage,
  longestAlert,
  messageOf,
  readBack,
  sampleAlerts,
  sampleSender,
  testMessage,
} from '../../../testing/messages.ts'
import { openEgress, startSocketReceiver } from '../../../testing/receiver.ts'
import { parseSyslog, splitFrames } from '../../../testing/syslog.ts'
import type { Message } from './message.ts'
import { syslog } from './syslog.ts'

const receiver = await startSocketReceiver()
afterAll(() => receiver[Symbol.asyncDispose]())

/** Longer than any successful delivery takes. */
const deadline = (): AbortSignal => AbortSignal.timeout(20_000)

const deliverTo = (url: string, egress = openEgress(), signal = deadline()) =>
  syslog.deliver(messageOf(sampleAlerts.hostile), { url }, sampleSender, egress, signal)

/** Delivers a message and returns the bytes that the receiver got. */
async function sent(message: Message, format?: 'json' | 'cef'): Promise<string> {
  const settings = { url: receiver.url, ...(format && { format }) }
  const verdict = await syslog.deliver(message, settings, sampleSender, openEgress(), deadline())
  expect(verdict).toEqual({ delivered: true, status: null, answer: null, error: null })
  return receiver.received.at(-1)!
}

describe('a receiver by TCP gets', () => {
  test('an alert as JSON', async () => {
    expect(await sent(messageOf(sampleAlerts.harmless))).toBe(
      '1046 <106>1 2026-11-21T12:22:27.794Z wardline-0123456789abcdef wardline - egress_blocked [wardline@32473 message_id="01a1fe0e-e000-7000-8000-000000000001" kind="alert" severity="critical" id="01a1fe0e-d6d1-75e4-9aa0-4232d19875ae" seq="7" event_type="egress_blocked" instance_id="billing_1"] \ufeff' +
        String.raw`{"id":"01a1fe0e-d6d1-75e4-9aa0-4232d19875ae","seq":7,"severity":"critical","source":"proxy","by_service":false,"event_type":"egress_blocked","description":"GET https://evil.example/?a=b|c\\d","instance_id":"billing_1","session_id":null,"ip_address":"2001:db8::7","observed_ip_address":"2001:db8::7","metadata":{"tool":"http-request","blocked":true},"event_seq":41,"created_at":"2026-11-21T12:22:27.794Z","instance_name":"Billing","tool":"http-request","decoys":[],"key":null,"suspension":{"by":"night shift","at":"2026-11-21T12:22:20.000Z","reason":"odd invoices","confirmed":true},"next":["wardline instances billing_1","wardline alerts ack 01a1fe0e-d6d1-75e4-9aa0-4232d19875ae"],"url":"https://w.example/alerts?alert=01a1fe0e-d6d1-75e4-9aa0-4232d19875ae"}`,
    )
  })

  test('an alert as CEF', async () => {
    expect(await sent(messageOf(sampleAlerts.bare), 'cef')).toBe(
      '583 <108>1 2026-11-21T12:22:27.782Z wardline-0123456789abcdef wardline - fleet_outage [wardline@32473 message_id="01a1fe0e-e000-7000-8000-000000000001" kind="alert" severity="warning" id="01a1fe0e-d6c6-7c3a-8204-c7723118a220" seq="9" event_type="fleet_outage"] \ufeffCEF:0|Wardline|Wardline|1.2.3|fleet_outage|fleet outage|5|rt=1795263747782 externalId=01a1fe0e-d6c6-7c3a-8204-c7723118a220 cat=warning msg=12 of 14 instances fell silent cs3Label=source cs3=wardline cs6Label=by_service cs6=true cn1Label=seq cn1=9 request=https://w.example/alerts?alert\\=01a1fe0e-d6c6-7c3a-8204-c7723118a220',
    )
  })

  test('a test and a check', async () => {
    expect(await sent(testMessage, 'json')).toBe(
      '227 <110>1 2026-11-21T12:22:30.000Z wardline-0123456789abcdef wardline - test [wardline@32473 message_id="01a1fe0e-e000-7000-8000-000000000001" kind="test" severity="info"] \ufeff{"title":"Wardline: a test, asked for by an operator."}',
    )
    expect(await sent(checkMessage, 'cef')).toMatch(
      / kind="check" .*\ufeffCEF:0\|Wardline\|Wardline\|1\.2\.3\|channel\.check\|/,
    )
  })

  test('hostile texts unchanged, in one line of JSON', async () => {
    const [frame] = splitFrames(Buffer.from(await sent(messageOf(sampleAlerts.hostile))))
    expect(frame).not.toMatch(/[\p{Cc}\u2028\u202e]/u)
    const received = JSON.parse(parseSyslog(frame!).text)
    expect(readBack(received)).toEqual(sampleAlerts.hostile)
  })
})

// A log server cuts a longer message, which then is not valid JSON, so an agent could hide its alert with long texts.
test.each(['\u0001', '🦊', '"', '\u{e0041}', '\u0301', '='])(
  'a message has at most 8,000 octets with texts of %j',
  async (character) => {
    for (const format of ['json', 'cef'] as const) {
      const [message] = splitFrames(Buffer.from(await sent(messageOf(longestAlert(character)), format)))
      expect(Buffer.byteLength(message!)).toBeLessThanOrEqual(8_000)
      if (format === 'json') {
        const { description, ...received } = JSON.parse(parseSyslog(message!).text)
        expect(received).toMatchObject({ metadata_omitted: true, session_id: character.repeat(200) })
        expect(description).toBe(received.description_cut ? `${character.repeat(249)}…` : character.repeat(1_000))
      }
    }
  },
)

test('a receiver by TLS gets the message only if its certificate is trusted', async () => {
  const certificate = createTestCertificate()
  await using secure = await startSocketReceiver({ certificate })
  expect(await deliverTo(secure.url, openEgress(certificate))).toMatchObject({ delivered: true })
  const [message] = splitFrames(Buffer.from(secure.received[0]!))
  expect(parseSyslog(message!).data.kind).toBe('alert')
  await expect(deliverTo(secure.url)).rejects.toThrow()
})

/** Returns the destination that a URL results in; the message itself goes to the receiver of these tests. */
async function destinationFor(url: string): Promise<Destination> {
  let asked: Destination | undefined
  const egress: Egress = {
    ...openEgress(),
    connect: (destination) => {
      asked = destination
      return openEgress().connect({ host: '127.0.0.1', port: Number(new URL(receiver.url).port), tls: false })
    },
  }
  await deliverTo(url, egress)
  return asked!
}

test('the URL determines host, port and TLS, with the default ports of syslog', async () => {
  expect(await destinationFor('tls://logs.example.com')).toEqual({ host: 'logs.example.com', port: 6514, tls: true })
  expect(await destinationFor('tcp://logs.example.com')).toEqual({ host: 'logs.example.com', port: 514, tls: false })
  expect(await destinationFor('tcp://[2001:db8::1]:1514')).toEqual({ host: '2001:db8::1', port: 1514, tls: false })
  expect(syslog.destination({ url: 'tls://user:hunter2@logs.example.com:7000/x' })).toBe('logs.example.com:7000')
})

describe('a delivery fails if the receiver', () => {
  // An attacker who can reset the connection could otherwise suppress the alert about the attack.
  test('resets the connection', async () => {
    const serve = (socket: Socket) => void socket.once('data', () => socket.resetAndDestroy())
    await using broken = await startSocketReceiver({ serve })
    await expect(deliverTo(broken.url)).rejects.toThrow(
      'The connection broke before the receiver accepted the message (ECONNRESET).',
    )
  })

  test('reads, but does not close the connection before the timeout', async () => {
    await using silent = await startSocketReceiver({ serve: (socket) => void socket.resume() })
    const stop = new AbortController()
    const delivering = deliverTo(silent.url, openEgress(), stop.signal)
    await vi.waitFor(() => expect(silent.sockets[0]?.readableEnded).toBe(true))
    stop.abort()
    await expect(delivering).rejects.toThrow('The receiver did not close the connection in time')
  })

  test('does not accept connections', async () => {
    const gone = await startSocketReceiver()
    await gone[Symbol.asyncDispose]()
    await expect(deliverTo(gone.url)).rejects.toThrow('ECONNREFUSED')
  })
})

test('no connection remains open after a success or a failure', async () => {
  const opened: Socket[] = []
  const egress: Egress = {
    ...openEgress(),
    async connect(destination, signal) {
      const socket = await openEgress().connect(destination, signal)
      opened.push(socket)
      return socket
    },
  }
  await using silent = await startSocketReceiver({ serve: (socket) => void socket.resume() })
  const stop = new AbortController()
  const delivering = deliverTo(silent.url, egress, stop.signal)
  await vi.waitFor(() => expect(silent.sockets[0]?.readableEnded).toBe(true))
  stop.abort()
  await expect(delivering).rejects.toThrow()
  await deliverTo(receiver.url, egress)
  expect(opened.map(({ destroyed }) => destroyed)).toEqual([true, true])
})
