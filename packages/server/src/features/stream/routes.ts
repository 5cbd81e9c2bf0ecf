import { clientAddress } from '../../http/actor.ts'
import type { Router } from '../../http/route.ts'
import type { EventStream } from './stream.ts'

/** Anything but a seq of ours is no place to resume from. */
function lastSeq(header: string | string[] | undefined): number | undefined {
  return typeof header === 'string' && /^\d{1,15}$/.test(header) ? Number(header) : undefined
}

export function mountStream(router: Router, stream: EventStream): void {
  router.stream('streamEvents', ({ request, principal }, reply) => {
    stream.subscribe(reply, {
      address: clientAddress(request),
      keyId: principal.keyId,
      lastSeq: lastSeq(request.headers['last-event-id']),
    })
  })
}
