import type { Service } from './service.ts'

/** The headers with which a browser sends the requests of a session. */
export interface SessionHeaders extends Record<string, string> {
  cookie: string
  'wardline-session': string
}

/** Opens a browser session, by default with the admin key. */
export async function openSession(service: Service, key?: string): Promise<SessionHeaders> {
  const { status, text, headers, body } = await service.call<{ secret: string }>('POST', '/api/session', {
    ...(key === undefined ? {} : { key }),
  })
  if (status !== 201) throw new Error(`POST /api/session answers ${status}: ${text}`)
  const cookie = (headers['set-cookie'] ?? []).map((text) => text.split(';')[0]).join('; ')
  return { cookie, 'wardline-session': body.secret }
}
