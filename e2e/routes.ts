/** Every documented route, written down from the contract and not from the service's own table. */

export type Scope = 'agent' | 'viewer' | 'operator' | 'admin'

export interface Route {
  method: 'GET' | 'POST' | 'DELETE'
  /** With `:id` where an instance, honeypot or other id belongs. */
  path: string
  /** Who may call it; undefined = open to everybody. */
  scopes?: Scope[]
  /** A body that is in order as far as authorisation is concerned. */
  body?: (id: string) => unknown
}

const event = (id: string) => ({
  severity: 'info',
  source: 'e2e',
  event_type: 'policy_note',
  description: `authorisation ${id}`,
  instance_id: id,
})

/** The routes that need a key. Who else than the scopes listed asks is answered 403. */
export const keyedRoutes: Route[] = [
  { method: 'POST', path: '/api/heartbeat', scopes: ['agent', 'admin'], body: (id) => ({ instance_id: id, name: id }) },
  { method: 'POST', path: '/api/events', scopes: ['agent', 'admin'], body: event },
  { method: 'POST', path: '/api/events/batch', scopes: ['agent', 'admin'], body: (id) => [event(id)] },
  { method: 'GET', path: '/api/events', scopes: ['viewer', 'operator', 'admin'] },
  { method: 'POST', path: '/api/kill/:id', scopes: ['operator', 'admin'], body: () => ({ reason: 'authorised' }) },
  { method: 'POST', path: '/api/resume/:id', scopes: ['operator', 'admin'] },
  { method: 'GET', path: '/api/status', scopes: ['viewer', 'operator', 'admin'] },
  { method: 'GET', path: '/api/instances/:id/status', scopes: ['agent', 'viewer', 'operator', 'admin'] },
  { method: 'GET', path: '/api/instances/:id/control', scopes: ['agent', 'viewer', 'operator', 'admin'] },
  { method: 'POST', path: '/api/instances/:id/ack', scopes: ['agent', 'admin'], body: () => ({ version: 0 }) },
  { method: 'GET', path: '/api/honeypots', scopes: ['viewer', 'operator', 'admin'] },
  {
    method: 'POST',
    path: '/api/honeypots',
    scopes: ['operator', 'admin'],
    body: (id) => ({ instanceId: id, type: 'file_path', path: `/srv/${id}/secret.env` }),
  },
  {
    method: 'POST',
    path: '/api/honeypots/check/key',
    scopes: ['agent', 'admin'],
    body: (id) => ({ key: `miss-${id}` }),
  },
  {
    method: 'POST',
    path: '/api/honeypots/check/path',
    scopes: ['agent', 'admin'],
    body: (id) => ({ path: `/x/${id}` }),
  },
  { method: 'DELETE', path: '/api/honeypots/:id', scopes: ['operator', 'admin'] },
  { method: 'POST', path: '/api/keys', scopes: ['admin'], body: (id) => ({ scope: 'viewer', name: `made by ${id}` }) },
]

export const openRoutes: Route[] = [
  { method: 'GET', path: '/api/public/trust' },
  { method: 'GET', path: '/api/stream' },
  { method: 'GET', path: '/healthz' },
  { method: 'GET', path: '/readyz' },
  { method: 'GET', path: '/metrics' },
  { method: 'GET', path: '/openapi.json' },
  { method: 'GET', path: '/docs' },
]

export function pathWith(route: Route, id: string): string {
  return route.path.replace(':id', id)
}
