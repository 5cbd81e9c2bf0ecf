import { type EventBatchReply, type EventQuery, limits, NewEvent } from '@wardline/contract'
import type { FastifyRequest } from 'fastify'
import { eventRowJson } from '../../bus/event-row.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { clientAddress } from '../../http/actor.ts'
import { assertMayActFor, type Principal } from '../../http/auth.ts'
import { pageLimit } from '../../http/page.ts'
import type { Router } from '../../http/route.ts'
import { validationSentence } from '../../http/validation.ts'
import type { Detection } from '../detection/detection.ts'
import { batchItems } from './batch.ts'
import type { Once } from './ingest.ts'
import type { EventToStore } from './insert-queries.ts'
import { eventToStore } from './new-event.ts'
import { readEvents } from './queries.ts'

function idempotencyKey(request: FastifyRequest): string | undefined {
  const key = request.headers['idempotency-key']
  if (key === undefined) return undefined
  if (typeof key !== 'string' || key.length === 0 || key.length > limits.idempotencyKey) {
    throw new AppError('invalid', `Idempotency-Key must have 1 to ${limits.idempotencyKey} characters.`)
  }
  return key
}

const instant = (text: string | undefined, name: string, otherwise: number): number => {
  if (text === undefined) return otherwise
  const time = Date.parse(text)
  if (!Number.isFinite(time)) throw new AppError('invalid', `${name} must be an ISO 8601 instant.`)
  return time
}

async function listPage({ database: { db } }: Deps, query: EventQuery): Promise<string> {
  const { rows, lookedDownTo } = await readEvents(db, query, {
    before: query.before === undefined ? Number.MAX_SAFE_INTEGER : Number(query.before),
    from: instant(query.from, 'from', 0),
    to: instant(query.to, 'to', Number.MAX_SAFE_INTEGER),
    limit: pageLimit(query.limit),
  })
  const next = lookedDownTo === undefined || lookedDownTo <= 1 ? 'null' : `"${lookedDownTo}"`
  return `{"events":[${rows.map(eventRowJson).join(',')}],"next":${next}}`
}

/** Batches have key space of their own: a batch and a single event may carry the same key. */
function batchOnce(events: EventToStore[], { keyId }: Principal, key: string | undefined): Once | undefined {
  return key === undefined ? undefined : { caller: `${keyId} batch`, key, answer: events.map(({ id }) => id).join(' ') }
}

/** Gives the accepted events the ids under which they are stored. Throws AppError `invalid` when their number differs. */
function assignIds(reply: EventBatchReply, ids: string[]): void {
  if (reply.ids.filter((id) => id !== null).length !== ids.length) {
    throw new AppError('invalid', 'Idempotency-Key was used before, for a batch with another number of valid events.')
  }
  reply.ids = reply.ids.map((id) => (id === null ? null : ids.shift()!))
}

export function mountEvents(router: Router, deps: Deps, detection: Detection): void {
  router.handle('createEvent', ({ body, principal, request }) => {
    assertMayActFor(principal, body.instance_id)
    const event = eventToStore(body, clientAddress(request), deps.clock.now())
    const key = idempotencyKey(request)
    const once = key === undefined ? undefined : { caller: principal.keyId, key, answer: event.id }
    return detection.store([event], once).then((id) => ({ ok: true, id }))
  })

  /** The row of one event of a batch, or why it is refused. */
  function accept(value: unknown, principal: Principal, request: FastifyRequest, now: number): EventToStore | string {
    const validate = request.compileValidationSchema(NewEvent)
    if (!validate(value)) return validationSentence(validate.errors![0]!).replace('The body', 'The event')
    try {
      const report = value as NewEvent
      assertMayActFor(principal, report.instance_id)
      return eventToStore(report, clientAddress(request), now)
    } catch (fault) {
      if (fault instanceof AppError) return fault.message
      throw fault
    }
  }

  router.handle('createEvents', async ({ principal, request }) => {
    const items = batchItems(request.body as Buffer, request.headers['content-type'] ?? '')
    const now = deps.clock.now()
    const reply: EventBatchReply = { ok: true, ids: [], errors: [] }
    const accepted: EventToStore[] = []
    for (const [index, item] of items.entries()) {
      const outcome = 'fault' in item ? item.fault : accept(item.value, principal, request, now)
      if (typeof outcome === 'string') reply.errors.push({ index, error: outcome })
      else accepted.push(outcome)
      reply.ids.push(typeof outcome === 'string' ? null : outcome.id)
    }
    if (accepted.length > 0) {
      const stored = await detection.store(accepted, batchOnce(accepted, principal, idempotencyKey(request)))
      if (stored !== accepted[0]!.id) assignIds(reply, stored.split(' '))
    }
    return { ...reply, ok: reply.errors.length === 0 }
  })

  router.handle('listEvents', async ({ query }, reply) => {
    reply.type('application/json; charset=utf-8')
    return (await listPage(deps, query)) as never
  })
}
