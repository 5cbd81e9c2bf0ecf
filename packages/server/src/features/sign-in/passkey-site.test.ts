import { request } from 'node:http'
import { expect, it } from 'vitest'
import { TestAuthenticator } from '../../testing/authenticator.ts'
import { openTestService, type TestService } from '../../testing/service.ts'

async function serviceAt(env: Record<string, string>): Promise<TestService & { port: number }> {
  const service = await openTestService({ env })
  const port = Number(new URL(await service.app.listen({ host: '127.0.0.1', port: 0 })).port)
  return { ...service, port }
}

interface Sent {
  method?: 'GET' | 'POST'
  path: string
  headers?: Record<string, string>
  body?: object
}

/** Sends a request whose Host header may name anything. Resolves with status and body. */
function send(port: number, { method = 'POST', path, headers = {}, body }: Sent) {
  return new Promise<[number, Record<string, never>]>((resolve, reject) => {
    const type = body ? { 'content-type': 'application/json' } : {}
    const sent = request(
      { port, host: '127.0.0.1', path, method, headers: { ...type, ...headers } },
      async (answer) => {
        let text = ''
        for await (const piece of answer) text += piece
        resolve([answer.statusCode!, JSON.parse(text)])
      },
    )
    sent.on('error', reject)
    sent.end(body && JSON.stringify(body))
  })
}

it.each([
  ['http://10.0.0.5:4747', 'is an IP address'],
  ['https://[::1]:4747', 'is an IP address'],
  ['http://wardline.example', 'is http://'],
])('%s has no passkeys, and says why', async (address, why) => {
  await using service = await openTestService({ env: { WARDLINE_PUBLIC_URL: address } })
  const session = { key: null, headers: { ...(await service.signIn()).headers, 'sec-fetch-site': 'same-origin' } }
  const { body } = await service.call<{ unavailable: string }>('GET', '/api/passkeys', session)
  expect(body.unavailable).toContain(why)
  const refused = await service.call<{ error: string }>('POST', '/api/passkeys/start', {
    ...session,
    body: { name: 'x' },
  })
  expect([refused.status, refused.body.error]).toEqual([409, body.unavailable])
})

it('localhost has some with the port of the service, and another name or port in the request counts for nothing', async () => {
  await using service = await serviceAt({ WARDLINE_ALLOWED_HOSTS: 'wardline.example, *.localhost' })
  const { port } = service
  const { headers } = await service.signIn()
  const own = { ...headers, 'sec-fetch-site': 'same-origin' }
  const at = async (host: string) => {
    const [, body] = await send(port, { method: 'GET', path: '/api/passkeys', headers: { ...own, host } })
    const start = { path: '/api/passkeys/start', headers: { ...own, host }, body: { name: 'x' } }
    const [status, { error = null }] = await send(port, start)
    expect([status, error]).toEqual([body.unavailable === null ? 201 : 409, body.unavailable])
    return body.unavailable
  }
  expect(await at(`localhost:${port}`)).toBeNull()
  expect(await at(`127.0.0.1:${port}`)).toContain('IP address')
  expect(await at(`wardline.example:${port}`)).toContain('is http://')
  const elsewhere = expect.stringContaining('with the port of the service')
  expect(await at('localhost:9999')).toEqual(elsewhere)
  expect(await at('localhost')).toEqual(elsewhere)
  // It would be stored, and never found again.
  expect(await at(`wardline.localhost:${port}`)).toEqual(elsewhere)
})

it('the page of another program of the machine signs nobody in', async () => {
  await using service = await serviceAt({})
  const { port } = service
  const host = `localhost:${port}`
  const origin = `http://${host}`
  const device = new TestAuthenticator(origin)
  const own = { ...(await service.signIn()).headers, 'sec-fetch-site': 'same-origin', host }
  const [, begun] = await send(port, { path: '/api/passkeys/start', headers: own, body: { name: 'x' } })
  const made = { secret: begun.secret, credential: device.create(begun.options!) }
  expect((await send(port, { path: '/api/passkeys', headers: own, body: made }))[0]).toBe(201)

  const start = (headers: Record<string, string>) => send(port, { path: '/api/sign-in/passkey/start', headers })
  const other = { host: 'localhost:9999', origin: 'http://localhost:9999' }
  expect((await start(other))[0]).toBe(409)
  expect((await start({ host }))[0]).toBe(403)
  expect((await start({ host, origin: other.origin }))[0]).toBe(403)
  const [status, { options, secret }] = await start({ host, origin })
  expect(status).toBe(201)
  const finish = async (headers: Record<string, string>, used = origin) => {
    const body = { secret, credential: device.get(options!, { origin: used }) }
    return (await send(port, { path: '/api/sign-in/passkey/finish', headers, body }))[0]
  }
  expect(await finish(other, other.origin)).toBe(409)
  expect(await finish({ host, origin }, other.origin)).toBe(401)
  expect(await finish({ host })).toBe(403)
  expect(await finish({ host, origin })).toBe(201)
})
