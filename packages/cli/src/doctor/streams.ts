import { endpoints } from '@wardline/contract'
import { openEventStream } from '../events/event-stream.ts'
import { Failure } from '../exit.ts'
import { rawRequest } from '../service/raw-request.ts'
import type { Service } from '../service/service.ts'
import { type Check, fail, ok, skip } from './check.ts'

/** The service sends the first message with the headers; if it takes longer, a proxy buffers the stream. */
const firstMessageWithinMs = 5_000

interface FirstMessage {
  ms: number
  data: string
}

class Late extends Error {}

/** Measures the time to the first message of a stream. Rejects with Late after the time limit. */
async function firstMessage({ url, key, keyFrom }: Service, path: string): Promise<FirstMessage> {
  const end = new AbortController()
  const timer = setTimeout(() => end.abort(new Late()), firstMessageWithinMs)
  const startedAt = performance.now()
  try {
    const { messages } = await openEventStream({ url, path, key, keyFrom, signal: end.signal })
    for await (const { data } of messages) {
      if (data !== undefined) return { ms: Math.round(performance.now() - startedAt), data }
    }
    throw new Error('it ended before its first message')
  } catch (fault) {
    throw end.signal.aborted ? end.signal.reason : fault
  } finally {
    clearTimeout(timer)
    end.abort()
  }
}

const passOn =
  'Switch off buffering, compression and caching for this path in every proxy (nginx: proxy_buffering off).'

/** Checks a stream by its first message. */
async function checkStream(
  name: string,
  service: Service,
  path: string,
  isFirst: (message: unknown) => boolean,
): Promise<Check> {
  try {
    const { ms, data } = await firstMessage(service, path)
    if (!isFirst(JSON.parse(data)))
      return fail(name, 'The first message is not from a Wardline server.', 'Check whether a proxy changes the stream.')
    return ok(name, `The stream works: the first message came after ${ms} ms.`)
  } catch (fault) {
    if (fault instanceof Late) {
      return fail(
        name,
        `No message within ${firstMessageWithinMs / 1_000} s: something on the way buffers the stream.`,
        passOn,
      )
    }
    const detail = fault instanceof Failure || fault instanceof Error ? fault.message : String(fault)
    return fail(name, `The stream does not work: ${detail}`, passOn)
  }
}

/** Checks the live stream of events, whose first message is a heartbeat. */
export const checkLiveStream = (service: Service): Promise<Check> =>
  checkStream(
    'live stream',
    service,
    endpoints.streamEvents.path,
    (message) => (message as { type?: unknown } | null)?.type === 'heartbeat',
  )

/**
 * Checks the stream by which agents receive a kill at once; its first message is the current state. No agent is suspended
 * for the check.
 */
export async function checkControlStream(service: Service): Promise<Check> {
  const name = 'control stream'
  if (service.key === undefined) return skip(name, 'The control stream cannot be checked without a key.')
  const answer = await rawRequest(service.url, endpoints.getStatus.path, { key: service.key }).catch(() => undefined)
  const { instances } = (answer?.body ?? {}) as { instances?: { id: string; status: string }[] }
  if (answer?.status !== 200 || !Array.isArray(instances)) return skip(name, 'This key may not list instances.')
  // For a suspended agent, this stream would count as delivery of its suspension.
  const id = instances.find(({ status }) => status !== 'suspended')?.id
  if (id === undefined)
    return skip(
      name,
      'No instance that is not suspended has sent a heartbeat yet, so there is no control stream to check.',
    )
  const path = endpoints.streamControl.path.replace(':instanceId', encodeURIComponent(id))
  return checkStream(
    name,
    service,
    path,
    (message) => (message as { instance_id?: unknown } | null)?.instance_id === id,
  )
}
