import { clientAddress } from '../../http/actor.ts'
import { addressGroup } from '../../http/address-group.ts'
import type { Router } from '../../http/route.ts'
import type { EventStream } from './stream.ts'

/** Parses Last-Event-ID. Undefined unless it is a seq of this server. */
function lastSeq(header: string | string[] | undefined): number | undefined {
  return typeof header === 'string' && /^\d{1,15}$/.test(header) ? Number(header) : undefined
}

export function mountStream(router: Router, { eventStream }: { eventStream: EventStream }): void {
  router.stream('streamEvents', ({ query, request, principal }, reply) => {
    eventStream.subscribe(reply, {
      // Without an address the connection is closed, and no stream will open.
      address: addressGroup(clientAddress(request) ?? ''),
      holder: principal,
      lastSeq: lastSeq(request.headers['last-event-id']),
      hasControl: query.include === 'control',
    })
  })
}
