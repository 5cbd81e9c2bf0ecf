import { ProviderBrowser } from '../../../../test-servers/identity-provider.ts'
import { hashKey } from '../features/keys/key-format.ts'
import { randomSecret } from '../ids.ts'
import { as, publicUrl, signIn } from './people.ts'
import type { TestService } from './service.ts'

interface Started {
  code: string
  url: string
}
interface Access {
  access: string
  access_seconds: number
  expires_at: string
}
type As = ReturnType<typeof as>

export const codeOf = (redirect: string | undefined) => new URL(redirect!).searchParams.get('code')!

/** Command lines that log in at this service. */
export function commandLoginsOf(service: TestService) {
  const post = <Body = { error: string }>(path: string, body: object, caller: object = { key: null }) =>
    service.call<Body>('POST', `/api/command-logins${path}`, { ...caller, body })

  /** A command line that begins a login. */
  async function begin(asked: object = {}) {
    const [token, secret, state] = [randomSecret(32), randomSecret(32), randomSecret(32)]
    const loopback = { port: 43_210, state }
    const asking = { challenge: hashKey(token), host: 'build-1', loopback, ...asked }
    const { body, status, text } = await post<Started>('', asking)
    if (status !== 201) throw new Error(text)
    const finish = (given: object = {}) =>
      post<{ pending: boolean; session?: Access; error: string }>('/finish', { token, secret, ...given })
    const renew = (current: string, next: string) =>
      post<Access & { error: string }>('/renew', { token, secret: current, next })
    return { ...body, token, secret, state, finish, renew }
  }

  /** Allows a login as a person does, whose provider knows the browser. */
  async function allow(code: string, person: As, login: string, browser = new ProviderBrowser()) {
    const { body, status, text } = await post<{ sign_in: { url: string; secret: string } }>(
      '/approve',
      { code },
      person,
    )
    if (status !== 200) throw new Error(text)
    const back = await browser.signIn(body.sign_in.url, login, publicUrl)
    const answer = { answer: back.search.slice(1), secret: body.sign_in.secret }
    return post<{ redirect_url?: string; error: string }>('/sign-in', answer, person)
  }

  /** Logs a command line in as a person. */
  async function logIn(login: string, asked: object = {}) {
    const browser = new ProviderBrowser()
    const person = as(await signIn(service, login, browser))
    const command = await begin(asked)
    const allowed = await allow(command.code, person, login, browser)
    const { body } = await command.finish({ code: codeOf(allowed.body.redirect_url) })
    return { ...command, ...body.session!, person }
  }

  const statusOf = async (access: string) => (await service.call('GET', '/api/session', { key: access })).status

  return { post, begin, allow, logIn, statusOf }
}
