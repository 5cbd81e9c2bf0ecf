/** Every documented route, written down from the contract and not from the service's own table. */

export type Scope = 'agent' | 'viewer' | 'operator' | 'admin'

export interface Route {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
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
  { method: 'GET', path: '/api/alerts', scopes: ['viewer', 'operator', 'admin'] },
  { method: 'PATCH', path: '/api/alerts/:id', scopes: ['operator', 'admin'], body: () => ({ status: 'open' }) },
  { method: 'GET', path: '/api/alert-channels', scopes: ['viewer', 'operator', 'admin'] },
  {
    method: 'POST',
    path: '/api/alert-channels',
    scopes: ['operator', 'admin'],
    body: (id) => ({ name: id, type: 'slack', settings: { url: 'https://203.0.113.7/services/x' } }),
  },
  { method: 'PATCH', path: '/api/alert-channels/:id', scopes: ['operator', 'admin'], body: () => ({ enabled: false }) },
  { method: 'DELETE', path: '/api/alert-channels/:id', scopes: ['operator', 'admin'] },
  { method: 'POST', path: '/api/alert-channels/:id/test', scopes: ['operator', 'admin'] },
  { method: 'POST', path: '/api/alert-channels/:id/replay', scopes: ['operator', 'admin'] },
  { method: 'POST', path: '/api/alert-channels/:id/rotate-secret', scopes: ['operator', 'admin'], body: () => ({}) },
  { method: 'GET', path: '/api/alert-messages', scopes: ['viewer', 'operator', 'admin'] },
  { method: 'GET', path: '/api/alert-routes', scopes: ['viewer', 'operator', 'admin'] },
  {
    method: 'POST',
    path: '/api/alert-routes',
    scopes: ['operator', 'admin'],
    body: (id) => ({ name: id, match: {}, channels: ['env-slack'] }),
  },
  { method: 'DELETE', path: '/api/alert-routes/:id', scopes: ['operator', 'admin'] },
  { method: 'GET', path: '/api/silences', scopes: ['viewer', 'operator', 'admin'] },
  {
    method: 'POST',
    path: '/api/silences',
    scopes: ['operator', 'admin'],
    body: (id) => ({
      match: { instances: [id] },
      reason: 'Test',
      ends_at: new Date(Date.now() + 60_000).toISOString(),
    }),
  },
  { method: 'DELETE', path: '/api/silences/:id', scopes: ['operator', 'admin'] },
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
