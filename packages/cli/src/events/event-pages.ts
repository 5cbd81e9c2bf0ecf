import { type Client, type EventList, type EventQuery, type EventRow, limits } from '@wardline/contract'

/**
 * Yields pages of matching events, newest first. A page may be empty although more follow, because the service reads a
 * limited number of rows per page.
 */
export async function* eventPages(
  call: Client,
  query: EventQuery,
  pageSize: number = limits.pageSize,
): AsyncGenerator<EventList> {
  let before = query.before
  for (;;) {
    const page = await call('listEvents', {
      query: { ...query, ...(before ? { before } : {}), limit: String(pageSize) },
    })
    yield page
    if (page.next === null) return
    before = page.next
  }
}

/** Returns the newest matching event; undefined if there is none. */
export async function newestEvent(call: Client, query: EventQuery): Promise<EventRow | undefined> {
  for await (const { events } of eventPages(call, query, 1)) {
    if (events[0]) return events[0]
  }
  return undefined
}
