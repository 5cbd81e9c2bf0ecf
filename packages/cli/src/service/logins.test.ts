import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { accessOf, type Login, loginsFile, readLogins, setLogin } from './logins.ts'

let folder: string
let file: string
let bodies: { token: string; secret: string; next: string }[]
let answer: { status: number; body: object }
/** Happens before the service answers. */
let meanwhile: () => void
const granted = { access: 'new', access_seconds: 600, expires_at: '2030-01-01T00:00:00.000Z' }
const server = createServer((request, response) => {
  let text = ''
  request.on('data', (part) => (text += part))
  request.on('end', () => {
    bodies.push(JSON.parse(text))
    meanwhile()
    response.writeHead(answer.status, { 'content-type': 'application/json' }).end(JSON.stringify(answer.body))
  })
})
let url: string
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'wardline-logins-'))
  file = loginsFile({ XDG_CONFIG_HOME: folder })
  bodies = []
  answer = { status: 200, body: granted }
  meanwhile = () => {}
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterEach(() => {
  server.closeAllConnections()
  server.close()
  rmSync(folder, { recursive: true })
})

const expired: Login = { token: 't', secret: 's', access: 'old', access_until: 0, expires_at: granted.expires_at }
const lock = () => `${file}.lock`

test('a command waits for another one that renews the access, and takes what it got', async () => {
  await setLogin(file, url, expired)
  writeFileSync(lock(), '')
  const access = accessOf(file, url, expired)()
  const renewed = { ...expired, secret: 'of-the-other', access: 'of-the-other', access_until: Date.now() + 60_000 }
  writeFileSync(file, JSON.stringify({ logins: { [url]: renewed } }), { mode: 0o600 })
  rmSync(lock())
  expect(await access).toBe('of-the-other')
  expect(bodies).toEqual([])
})

test('the lock of a command that was killed does not last', async () => {
  await setLogin(file, url, expired)
  writeFileSync(lock(), '')
  utimesSync(lock(), new Date(), new Date(Date.now() - 31_000))
  expect(await accessOf(file, url, expired)()).toBe('new')
  expect(existsSync(lock())).toBe(false)
})

// A machine that slept: the other command has replaced the secret, and an older one would end the session.
test('a command that lost its lock leaves lock and login to the other one', async () => {
  await setLogin(file, url, expired)
  const later = { ...expired, secret: 'of-the-other', access: 'of-the-other' }
  meanwhile = () => {
    writeFileSync(lock(), 'the other')
    writeFileSync(file, JSON.stringify({ logins: { [url]: later } }), { mode: 0o600 })
  }
  expect(await accessOf(file, url, expired)()).toBe('new')
  expect(readLogins(file).get(url)).toEqual(later)
  expect(readFileSync(lock(), 'utf8')).toBe('the other')
})

test('of commands that find the same stale lock, only one at a time renews', async () => {
  await setLogin(file, url, expired)
  writeFileSync(lock(), '')
  utimesSync(lock(), new Date(), new Date(Date.now() - 31_000))
  const holders = new Set<string>()
  meanwhile = () => void holders.add(readFileSync(lock(), 'utf8'))
  const all = Array.from({ length: 8 }, () => accessOf(file, url, expired)())
  expect(new Set(await Promise.all(all))).toEqual(new Set(['new']))
  expect([bodies.length, holders.size]).toEqual([1, 1])
  expect([...holders][0]).toMatch(/^[\w-]{43}$/)
  expect(readdirSync(dirname(file))).toEqual(['logins.json'])
})

test('the next secret is stored before it is sent, and an attempt without an answer is repeated with it', async () => {
  await setLogin(file, url, expired)
  answer = { status: 503, body: { error: 'The database is unavailable.' } }
  await expect(accessOf(file, url, expired)()).rejects.toThrow('unavailable')
  expect(readLogins(file).get(url)).toMatchObject({ secret: 's', next: bodies[0]!.next })
  answer = { status: 200, body: granted }
  expect(await accessOf(file, url, expired)()).toBe('new')
  expect(bodies[1]).toEqual(bodies[0])
  expect(readLogins(file).get(url)).toEqual(expect.objectContaining({ secret: bodies[0]!.next, access: 'new' }))
  expect(readFileSync(file, 'utf8')).not.toContain('"next"')
})

test('a login that has ended stays, so that the next command does not act as another', async () => {
  await setLogin(file, url, expired)
  answer = { status: 401, body: { error: 'The session of this command line has ended.' } }
  await expect(accessOf(file, url, expired)()).rejects.toThrow('has expired or was ended')
  expect(readLogins(file).has(url)).toBe(true)
})

test('the last login takes the file with it', async () => {
  mkdirSync(folder, { recursive: true })
  await setLogin(file, url, expired)
  await setLogin(file, 'https://other.example', expired)
  await setLogin(file, url, undefined)
  expect([...readLogins(file).keys()]).toEqual(['https://other.example'])
  await setLogin(file, 'https://other.example', undefined)
  expect(existsSync(file)).toBe(false)
})
