import { type EventBatchReply, type EventQuery, limits, NewEvent } from '@wardline/contract'
import type { FastifyRequest } from 'fastify'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { clientAddress } from '../../http/actor.ts'
import { assertMayActFor, type Principal } from '../../http/auth.ts'
import { pageLimit } from '../../http/page.ts'
import type { Router } from '../../http/route.ts'
import { validationSentence } from '../../http/validation.ts'
import type { Detection } from '../detection/detection.ts'
import { batchItems } from './batch.ts'
import type { EventToStore } from './insert-queries.ts'
import { eventToStore } from './new-event.ts'
import { readEvents } from './queries.ts'
import { eventRowJson } from './row.ts'

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

export function mountEvents(router: Router, deps: Deps, detection: Detection): void {
  router.handle('createEvent', ({ body, principal, request }) => {
    assertMayActFor(principal, body.instance_id)
    const event = eventToStore(body, clientAddress(request), deps.clock.now())
    const key = idempotencyKey(request)
    const once = key === undefined ? undefined : { caller: principal.keyId, key }
    return detection.store(event, once).then((id) => ({ ok: true, id }))
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
    await detection.storeAll(accepted)
    return { ...reply, ok: reply.errors.length === 0 }
  })

  router.handle('listEvents', async ({ query }, reply) => {
    reply.type('application/json; charset=utf-8')
    return (await listPage(deps, query)) as never
  })
}
