import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { type IdentityProvider, ProviderBrowser, startIdentityProvider } from '../test-servers/identity-provider.ts'
import { type Command, runCommand, startCommand } from './command.ts'
import { freePort, type Service, startService, until } from './service.ts'

const port = await freePort()
const publicUrl = `http://127.0.0.1:${port}`
const folder = mkdtempSync(join(tmpdir(), 'wardline-login-'))
const opened = join(folder, 'opened')

let provider: IdentityProvider
let service: Service
beforeAll(async () => {
  provider = await startIdentityProvider({
    publicUrl,
    accounts: { ada: { name: 'Ada', groups: ['platform'] }, root: { name: 'Grace', groups: ['admins'] } },
  })
  service = await startService({ env: { ...provider.env(), PORT: String(port) } })
  const mappings = [
    { group: 'platform', role: 'operator' },
    { group: 'admins', role: 'admin' },
  ]
  await service.call('PUT', '/api/roles', { body: { mappings, version: 0 } })
  // A browser that only notes what it is to open.
  mkdirSync(join(folder, 'bin'))
  writeFileSync(
    join(folder, 'bin', 'xdg-open'),
    `#!/bin/sh\nprintf '%s' "$1" > "${opened}.part"\nmv "${opened}.part" "${opened}"\n`,
  )
  chmodSync(join(folder, 'bin', 'xdg-open'), 0o755)
})
afterAll(async () => {
  await service?.stop()
  await provider?.[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true })
})

let settings: string
beforeEach(() => {
  settings = mkdtempSync(join(folder, 'settings-'))
  rmSync(opened, { force: true })
})
const environment = () => ({
  XDG_CONFIG_HOME: settings,
  PATH: `${join(folder, 'bin')}:${process.env.PATH}`,
  DISPLAY: ':0',
})
const file = () => join(settings, 'wardline', 'logins.json')
// No folder of the service, in which its admin key would be found.
const run = (...args: string[]) => runCommand(args, environment(), folder)
const logins = () => JSON.parse(readFileSync(file(), 'utf8')).logins[service.baseUrl] as Record<string, string | number>

/** A person in a browser, by its requests. */
async function browserOf(login: string) {
  const browser = new ProviderBrowser()
  const start = await service.call<{ url: string; secret: string }>('POST', '/api/sign-in/start', { key: null })
  const back = await browser.signIn(start.body.url, login, publicUrl)
  const body = { answer: back.search.slice(1), secret: start.body.secret }
  const { headers, body: opened } = await service.call<{ secret: string }>('POST', '/api/sign-in/finish', {
    key: null,
    body,
  })
  const cookie = String(headers['set-cookie']).split(';')[0]!
  const session = { cookie, 'wardline-session': opened.secret, 'sec-fetch-site': 'same-origin' }
  const post = async <Body>(path: string, body: object) =>
    (await service.call<Body>('POST', `/api/command-logins/${path}`, { key: null, headers: session, body })).body
  return {
    post,
    /** Allows the command line with this code. Resolves with the address to which the page leads. */
    async allow(code: string): Promise<string | undefined> {
      const { sign_in } = await post<{ sign_in: { url: string; secret: string } }>('approve', { code })
      const again = await browser.signIn(sign_in.url, login, publicUrl)
      const answer = { answer: again.search.slice(1), secret: sign_in.secret }
      return (await post<{ redirect_url?: string }>('sign-in', answer)).redirect_url
    },
  }
}

/** Resolves with the code in the address that the command opened in the browser. */
async function openedCode(command: Command): Promise<string> {
  const door = await until(
    'the browser',
    () => (existsSync(opened) ? readFileSync(opened, 'utf8') : command.output()),
    (text) => /^http:\/\/127\.0\.0\.1:\d+\/[\w-]{43}$/.test(text),
  )
  // All users of the machine read the arguments of the program that opens it, so they lead to the page once.
  const page = (await get(door)).location!
  expect((await get(door)).status).toBe(404)
  const [address, code] = page.split('#') as [string, string]
  expect(address).toBe(`${publicUrl}/auth/cli`)
  expect(command.output()).toContain(code)
  return code
}

const get = (address: string, host?: string): Promise<{ status: number; location: string | undefined }> =>
  new Promise((resolve, reject) => {
    const asked = request(address, { headers: host === undefined ? {} : { host } }, (answer) => {
      answer.resume()
      resolve({ status: answer.statusCode!, location: answer.headers.location })
    })
    asked.once('error', reject).end()
  })

/** Logs a command line in through the browser on the same machine. */
async function logIn(login: string, ...options: string[]): Promise<Awaited<Command['ended']>> {
  rmSync(opened, { force: true })
  const command = startCommand(['login', service.baseUrl, ...options], environment(), folder)
  const code = await openedCode(command)
  await get((await (await browserOf(login)).allow(code))!)
  return command.ended
}

test('wardline login opens the browser, takes its code over loopback once, and acts for the person', async () => {
  const command = startCommand(['login', service.baseUrl], environment(), folder)
  const code = await openedCode(command)
  const ada = await browserOf('ada')
  expect(await ada.post('find', { code })).toMatchObject({ loopback: true, same_address: true })
  const redirect = (await ada.allow(code))!
  const { origin, searchParams } = new URL(redirect)
  // A page that the person visits, or a name that points to this machine.
  expect((await get(`${origin}/?code=${'A'.repeat(43)}&state=${'B'.repeat(43)}`)).status).toBe(404)
  expect((await get(`${origin}/?code=${searchParams.get('code')}`)).status).toBe(404)
  expect((await get(`${origin}/?state=${encodeURIComponent('ä'.repeat(43))}`)).status).toBe(404)
  expect((await get(redirect, 'evil.example')).status).toBe(404)
  // The history of the browser has no code.
  expect(await get(redirect)).toEqual({ status: 303, location: `${publicUrl}/auth/cli?done=true` })
  const { code: exit, stdout, output } = await command.ended
  expect(stdout).toMatch(
    /^Person: Ada \(person-\w{16}\)\nRole: operator\nService: http:\S+\nBy: the login of this command line, until 20/,
  )
  expect(exit).toBe(0)
  await expect(get(redirect)).rejects.toThrow('ECONNREFUSED')
  expect([statSync(file()).mode & 0o777, statSync(join(settings, 'wardline')).mode & 0o777]).toEqual([0o600, 0o700])
  const { token, secret, access } = logins()
  for (const text of [token, secret, access]) expect(output + service.logs()).not.toContain(text)

  // The only login is used without an address; a key that is given goes first.
  expect((await run('status')).code).toBe(0)
  expect(JSON.parse((await run('whoami', '--json')).stdout)).toMatchObject({ name: 'Ada', role: 'operator' })
  const byKey = await runCommand(
    ['whoami', '--url', service.baseUrl],
    { ...environment(), WARDLINE_KEY: service.key },
    folder,
  )
  expect(byKey.stdout).toMatch(/^Key: .*\nRole: admin\nService: .*\nBy: WARDLINE_KEY\n$/)
  const refused = await run('keys', 'list', '--url', service.baseUrl)
  expect(refused).toMatchObject({ code: 3, stderr: expect.stringContaining('Your role does not include it') })
})

/** A server that passes requests on to the service, with its own address in place of the service's. */
async function relay(rewrites: boolean) {
  const paths: string[] = []
  const server = createServer((asked, answer) => {
    paths.push(asked.url!)
    const { host: _host, ...headers } = asked.headers
    const onward = request(`${service.baseUrl}${asked.url}`, { method: asked.method!, headers }, async (reply) => {
      const text = (await reply.toArray()).join('')
      const body = rewrites ? text.replaceAll(publicUrl, url) : text
      answer.writeHead(reply.statusCode!, { 'content-type': 'application/json' }).end(body)
    })
    asked.pipe(onward)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    url,
    paths,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

// Otherwise it gets the session of the person at the service: the page that they see is the right one.
test('a server that passes the login on to another one is noticed by the page that it names', async () => {
  await using other = await relay(false)
  const { code, stderr } = await run('login', other.url)
  expect([code, stderr]).toEqual([
    2,
    expect.stringContaining(`You log in at ${other.url}, and its page is at ${publicUrl}`),
  ])
  expect(existsSync(opened)).toBe(false)
})

test('a server that passes the login on and names its own page does not get the code', async () => {
  await using other = await relay(true)
  const command = startCommand(['login', other.url], environment(), folder)
  const door = await until(
    'the browser',
    () => (existsSync(opened) ? readFileSync(opened, 'utf8') : ''),
    (text) => text !== '',
  )
  // Its page leads on to that of the service.
  const code = (await get(door)).location!.split('#')[1]!
  await get((await (await browserOf('ada')).allow(code))!)
  expect(await command.ended).toMatchObject({
    code: 2,
    stderr: expect.stringContaining(`was allowed at ${publicUrl}, not at ${other.url}`),
  })
  expect(other.paths).toEqual(['/api/command-logins'])
})

test('an address without TLS warns, unless it is of this machine', async () => {
  const warning = 'has no TLS, so others on the network can take over the login.'
  expect((await run('login', 'http://wardline.invalid')).stderr).toContain(`http://wardline.invalid ${warning}`)
  expect((await run('login', 'https://wardline.invalid')).stderr).not.toContain(warning)
  expect((await run('login', 'http://127.0.0.1:1')).stderr).not.toContain(warning)
})

test('a login that is refused on the page says so', async () => {
  const command = startCommand(['login', service.baseUrl], environment(), folder)
  const code = await openedCode(command)
  const { redirect_url } = await (await browserOf('ada')).post<{ redirect_url: string }>('deny', { code })
  expect(await get(redirect_url)).toEqual({ status: 303, location: `${publicUrl}/auth/cli?refused=true` })
  expect(await command.ended).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('The login was refused on the page.'),
  })
  expect(existsSync(file())).toBe(false)
})

test('without a browser it prints a code to enter, and waits for the person', async () => {
  const command = startCommand(['login', service.baseUrl, '--no-browser'], environment(), folder)
  const printed = await until(
    'the code',
    () => command.output(),
    (text) => /[A-Z]{4}-[A-Z]{4}/.test(text),
  )
  expect(printed).toContain(`${publicUrl}/auth/cli\n`)
  expect(existsSync(opened)).toBe(false)
  expect(await (await browserOf('ada')).allow(/[A-Z]{4}-[A-Z]{4}/.exec(printed)![0])).toBeUndefined()
  expect(await command.ended).toMatchObject({ code: 0, stdout: expect.stringContaining('Person: Ada') })

  expect(await run('login')).toMatchObject({
    code: 3,
    stderr: expect.stringContaining('A link signs a browser in with a key'),
  })

  // Logging out ends the session there, too.
  const { access } = logins() as { access: string }
  expect((await run('logout')).stdout).toBe(`Logged out at ${service.baseUrl}.\n`)
  expect(existsSync(file())).toBe(false)
  expect((await service.call('GET', '/api/session', { key: access })).status).toBe(401)
  expect(await run('logout', service.baseUrl)).toMatchObject({ code: 2 })
  expect(await run('whoami', '--url', service.baseUrl)).toMatchObject({
    code: 3,
    stderr: expect.stringContaining(`run \`wardline login ${service.baseUrl}\``),
  })
})

test('a change that matters names the command that confirms, which replaces the login', async () => {
  await logIn('root')
  const before = logins().access as string
  const create = () => run('keys', 'create', '--scope', 'viewer', '--name', 'x', '--url', service.baseUrl)
  const refused = await create()
  // The provider did not say when it authenticated the person, as it was not asked.
  expect(refused).toMatchObject({
    code: 2,
    stderr: expect.stringContaining(`wardline login ${service.baseUrl} --confirm`),
  })
  expect((await logIn('root', '--confirm')).code).toBe(0)
  expect((await create()).code).toBe(0)
  expect((await service.call('GET', '/api/session', { key: before })).status).toBe(401)
})

test('commands that renew the access at the same time do not end the session', async () => {
  await logIn('ada')
  const file_ = file()
  const content = JSON.parse(readFileSync(file_, 'utf8'))
  content.logins[service.baseUrl].access_until = 0
  writeFileSync(file_, JSON.stringify(content), { mode: 0o600 })
  const all = [1, 2, 3, 4].map(() => startCommand(['whoami'], environment(), folder).ended)
  expect((await Promise.all(all)).map(({ code }) => code)).toEqual([0, 0, 0, 0])
  expect(logins().secret).not.toBe(content.logins[service.baseUrl].secret)
  expect(existsSync(`${file_}.lock`)).toBe(false)
})

// A thief who copied the file has the same secret, and one of both uses it second.
test('a copy of the file ends the session once both have used it', async () => {
  await logIn('ada')
  const copy = mkdtempSync(join(folder, 'copy-'))
  const content = JSON.parse(readFileSync(file(), 'utf8'))
  content.logins[service.baseUrl].access_until = 0
  writeFileSync(file(), JSON.stringify(content), { mode: 0o600 })
  cpSync(settings, copy, { recursive: true })
  expect((await runCommand(['whoami'], { ...environment(), XDG_CONFIG_HOME: copy }, folder)).code).toBe(0)
  const ended = {
    code: 3,
    stderr: expect.stringContaining(`has expired or was ended: run \`wardline login ${service.baseUrl}\``),
  }
  expect(await run('whoami')).toMatchObject(ended)
  expect(await runCommand(['whoami'], { ...environment(), XDG_CONFIG_HOME: copy }, folder)).toMatchObject(ended)
})

test('a session that an admin ended is said by the next command, which uses no other key', async () => {
  await logIn('ada')
  const { body } = await service.call<{ people: { id: string; name: string }[] }>('GET', '/api/people')
  const { id } = body.people.find(({ name }) => name === 'Ada')!
  const { stdout } = await runCommand(['people', 'end-sessions', id], {
    WARDLINE_URL: service.baseUrl,
    WARDLINE_KEY: service.key,
  })
  expect(stdout).toContain('Sessions ended')
  const inFolder = await runCommand(
    ['status', '--url', service.baseUrl],
    { ...environment(), WARDLINE_DATA_DIR: service.dataDir },
    folder,
  )
  expect(inFolder).toMatchObject({ code: 3, stderr: expect.stringContaining('has expired or was ended') })
  expect((await run('logout')).code).toBe(0)
  expect(existsSync(file())).toBe(false)
})

test('a file that others can read is refused, and a damaged one is not quoted', async () => {
  await logIn('ada')
  chmodSync(file(), 0o644)
  expect(await run('whoami')).toMatchObject({ code: 78, stderr: expect.stringContaining('chmod 600') })
  writeFileSync(file(), '{"logins": {"x": {"token": "secret-text"}}}')
  chmodSync(file(), 0o600)
  const { code, stderr } = await run('whoami')
  expect(code).toBe(78)
  expect(stderr).toContain('is damaged')
  expect(stderr).not.toContain('secret-text')
})
