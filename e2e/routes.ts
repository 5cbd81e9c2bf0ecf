import { readFileSync } from 'node:fs'

/**
 * All routes, from the reference generated from the endpoint table, so a new endpoint is covered without a change
 * here.
 */

export type Scope = 'agent' | 'viewer' | 'operator' | 'admin'

export interface Route {
  method: string
  /** Path with `:id` in place of an id. */
  path: string
  /** Scopes that may call it; undefined: public. */
  scopes?: Scope[]
  /** Query, for routes with required parameters. */
  query?: (id: string) => string
  /** A body that passes authorization. */
  body?: (id: string) => unknown
}

interface Operation {
  operationId: string
  description?: string
  security: object[]
  requestBody?: unknown
}

const event = (id: string) => ({
  severity: 'info',
  source: 'e2e',
  event_type: 'policy_note',
  description: `authorisation ${id}`,
  instance_id: id,
})

/** Bodies by operation; other operations with a body get an empty object. */
const bodies: Record<string, (id: string) => unknown> = {
  sendHeartbeat: (id) => ({ instance_id: id, name: id }),
  createEvent: event,
  createEvents: (id) => [event(id)],
  killInstance: () => ({ reason: 'authorised' }),
  setInstanceTags: (id) => ({ tags: [id.slice(0, 40)] }),
  setInstanceNote: () => ({ text: 'authorised' }),
  acknowledgeControl: () => ({ version: 0 }),
  createHoneypot: (id) => ({ instanceId: id, type: 'file_path', path: `/srv/${id}/secret.env` }),
  checkKey: (id) => ({ key: `miss-${id}` }),
  checkPath: (id) => ({ path: `/x/${id}` }),
  checkOutput: (id) => ({ of: 'result', text: `miss-${id}` }),
  changeAlert: () => ({ status: 'open' }),
  addComment: () => ({ text: 'authorised' }),
  createChannel: (id) => ({ name: id, type: 'slack', settings: { url: 'https://203.0.113.7/services/x' } }),
  changeChannel: () => ({ enabled: false }),
  previewAlert: (id) => ({ severity: 'critical', event_type: 'note', instance_id: id }),
  createRoute: (id) => ({ name: id, match: {}, channels: ['env-slack'] }),
  createSilence: (id) => ({
    match: { instances: [id] },
    reason: 'Test',
    ends_at: new Date(Date.now() + 60_000).toISOString(),
  }),
  previewLoginLink: () => ({ code: 'A'.repeat(43) }),
  redeemLoginLink: () => ({ code: 'A'.repeat(43) }),
  createView: (id) => ({ name: id, screen: 'events', query: '' }),
  replaceView: (id) => ({ name: id, screen: 'events', query: '' }),
  // Of no list: the second scope would otherwise meet the list of the first.
  putList: () => ({ entries: [], version: 1 }),
  changeListEntries: () => ({ add: ['one'] }),
  createKey: (id) => ({ scope: 'viewer', name: `made by ${id}` }),
}

const incident = (id: string) => `?instance_id=${id}&from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z`

/** Queries by operation with required parameters. */
const queries: Record<string, (id: string) => string> = {
  exportIncident: incident,
  previewIncident: incident,
  explainEvent: () => '?event=1',
  getFleetGroups: () => '?by=team',
  search: (id) => `?q=${id}`,
}

function scopesOf({ operationId, description = '', security }: Operation): Scope[] | undefined {
  const isOpen = security.length === 0 || security.some((way) => Object.keys(way).length === 0)
  const scopes = /^Scopes: ([a-z, ]+)\./.exec(description)?.[1]
  if (isOpen === (scopes !== undefined)) throw new Error(`the reference does not say who may call ${operationId}`)
  return scopes?.split(', ') as Scope[] | undefined
}

function routeOf(method: string, path: string, operation: Operation): Route {
  const scopes = scopesOf(operation)
  const body = operation.requestBody ? (bodies[operation.operationId] ?? (() => ({}))) : undefined
  const query = queries[operation.operationId]
  return {
    method: method.toUpperCase(),
    path: path.replaceAll(/\{\w+\}/g, ':id'),
    ...(query ? { query } : {}),
    ...(scopes ? { scopes } : {}),
    ...(body ? { body } : {}),
  }
}

const reference: { paths: Record<string, Record<string, Operation>> } = JSON.parse(
  readFileSync(new URL('../docs/reference/openapi.json', import.meta.url), 'utf8'),
)
const routes = Object.entries(reference.paths).flatMap(([path, operations]) =>
  Object.entries(operations).map(([method, operation]) => routeOf(method, path, operation)),
)

/** Routes that need a key. Keys of scopes that are not listed get 403. */
export const keyedRoutes = routes.filter(({ scopes }) => scopes)

/** Public routes of the endpoint table, and pages of its documentation. */
export const openRoutes: Route[] = [
  ...routes.filter(({ scopes }) => !scopes),
  { method: 'GET', path: '/openapi.json' },
  { method: 'GET', path: '/docs' },
]

export function pathWith(route: Route, id: string): string {
  return route.path.replace(':id', id) + (route.query?.(id) ?? '')
}
