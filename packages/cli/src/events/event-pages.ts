import { type Client, type EventList, type EventQuery, type EventRow, limits } from '@wardline/contract'

/**
 * Pages of matching events, newest first, until there are no more. A page may be empty while more follow: the service
 * looks at a bounded number of rows for each.
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

/** The newest event that matches; undefined when there is none. */
export async function newestEvent(call: Client, query: EventQuery): Promise<EventRow | undefined> {
  for await (const { events } of eventPages(call, query, 1)) {
    if (events[0]) return events[0]
  }
  return undefined
}
