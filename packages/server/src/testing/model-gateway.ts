import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Gateway, openGateway } from '../features/gateway/gateway.ts'
import { startProvider } from './model-provider.ts'
import { openTestService, type TestService } from './service.ts'

type Provider = Awaited<ReturnType<typeof startProvider>>
type Answer = Parameters<typeof startProvider>[0]

interface Sent {
  key: string
  body?: unknown
  method?: string
  signal?: AbortSignal
  headers?: Record<string, string>
}

interface TestGateway extends AsyncDisposable {
  service: TestService
  provider: Provider
  gateway: Gateway
  /** Settings of the gateway, for another process. */
  env: Record<string, string>
  /** How the provider answers; `{}` by default. */
  answer: Answer
  send(path: string, sent: Sent): Promise<Response>
}

/** Opens a service with its gateway, and a provider behind the upstreams `openai`, `anthropic` and `gemini`. */
export async function openTestGateway({
  file = {},
  env = {},
}: {
  /** Further fields of the file of the gateway. */
  file?: object
  env?: Record<string, string>
} = {}): Promise<TestGateway> {
  const folder = mkdtempSync(join(tmpdir(), 'wardline-gateway-'))
  const provider = await startProvider((received) => test.answer(received))
  const entry = (kind: string, path: string) => ({ kind, url: `${provider.url}${path}`, key_file: join(folder, 'key') })
  const upstreams = {
    openai: entry('openai', '/v1'),
    anthropic: entry('anthropic', ''),
    gemini: entry('gemini', ''),
    away: { ...entry('openai', ''), url: 'http://127.0.0.1:1/v1' },
    'openai-away': { ...entry('openai', ''), url: 'http://127.0.0.1:1/v1' },
    'anthropic-away': { ...entry('anthropic', ''), url: 'http://127.0.0.1:1' },
    'gemini-away': { ...entry('gemini', ''), url: 'http://127.0.0.1:1' },
  }
  writeFileSync(join(folder, 'key'), 'the-key-of-the-provider', { mode: 0o600 })
  writeFileSync(join(folder, 'gateway.yaml'), JSON.stringify({ upstreams, ...file }))
  const settings = { ...env, WARDLINE_GATEWAY_PORT: '0', WARDLINE_GATEWAY_FILE: join(folder, 'gateway.yaml') }
  const service = await openTestService({ env: settings })
  const gateway = await openGateway(service.deps, service.services)
  const test: TestGateway = {
    service,
    provider,
    gateway,
    env: settings,
    answer: ({ response }) => void response.writeHead(200, { 'content-type': 'application/json' }).end('{}'),
    send: (path, { key, body, method = 'POST', headers, ...more }) =>
      fetch(`http://127.0.0.1:${gateway.port}${path}`, {
        method,
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
        ...(method === 'GET'
          ? {}
          : { body: typeof body === 'string' ? body : JSON.stringify(body ?? { model: 'm-1' }) }),
        ...more,
      }),
    async [Symbol.asyncDispose]() {
      await gateway.close(0)
      await service[Symbol.asyncDispose]()
      await provider[Symbol.asyncDispose]()
      rmSync(folder, { recursive: true })
    },
  }
  return test
}
