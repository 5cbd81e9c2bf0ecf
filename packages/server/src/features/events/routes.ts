import type { FastifyRequest } from 'fastify'
import type { Deps } from '../../deps.ts'
import { clientAddress } from '../../http/actor.ts'
import type { Router } from '../../http/route.ts'
import { readFacets, readHistogram, readToolHistogram } from './aggregates.ts'
import type { EventIndex } from './event-index.ts'
import type { Events, Reporter } from './events.ts'
import { eventFault } from './new-event.ts'

/** Node joins repeated headers into one string. */
const reporterOf = (request: FastifyRequest): Reporter => ({
  principal: request.principal,
  address: clientAddress(request),
  idempotencyKey: request.headers['idempotency-key'] as string | undefined,
})

export function mountEvents(
  router: Router,
  { database, clock }: Pick<Deps, 'database' | 'clock'>,
  { events, eventIndex }: { events: Events; eventIndex: EventIndex },
): void {
  router.direct('createEvent', ({ body, principal, address, headers }) =>
    events.report(body, { principal, address, idempotencyKey: headers['idempotency-key'] as string | undefined }),
  )

  router.handle('createEvents', ({ request }) => {
    const named = new Set<string>()
    request.namedInstances = named
    const batch = {
      named,
      bytes: request.body as Buffer,
      isLines: (request.headers['content-type'] ?? '').startsWith('application/x-ndjson'),
      faultOf: eventFault,
      onRefused: (fault: Error) => router.noteRefusal(request, fault),
    }
    return events.reportBatch(batch, reporterOf(request))
  })

  router.handle('checkEventIndex', ({ body, principal }) => eventIndex.check(principal.keyId, body.before))

  router.handle('getToolHistogram', ({ query, principal }) =>
    database.scan(principal.keyId, (db) => readToolHistogram(db, query, clock.now(), principal.team)),
  )

  router.handle('getEventHistogram', ({ query, principal }) =>
    database.scan(principal.keyId, (db) => readHistogram(db, query, clock.now(), principal.team)),
  )

  router.handle('getEventFacets', ({ query, principal }) =>
    database.scan(principal.keyId, (db) => readFacets(db, query, principal.team)),
  )

  router.handle('listEvents', async ({ query, principal }, reply) => {
    reply.type('application/json; charset=utf-8')
    return (await events.list(query, principal)) as never
  })
}
