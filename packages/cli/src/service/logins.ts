import { mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { createClient, type ReplyOf, WardlineError } from '@wardline/contract'
import { Failure } from '../exit.ts'
import { readPrivately, settingsFolder, writePrivately } from './private-file.ts'
import { sendHttp } from './send-http.ts'

/** A session of this command line at one service. */
export interface Login {
  token: string
  /** Buys the next access, once. */
  secret: string
  /** Chosen before it is sent, so that an attempt whose answer is lost is repeated, and is no second use. */
  next?: string
  access: string
  /** When to renew it, by the clock of this machine, in epoch milliseconds. */
  access_until: number
  /** End of the session, ISO 8601. */
  expires_at: string
}

/** By address. */
export type Logins = ReadonlyMap<string, Login>

/** The access is renewed this long before it expires: longer than the slowest command waits for an answer. */
const renewBeforeMs = 60_000
const answerWithinMs = 15_000
/** A command that was killed leaves its lock behind; a working one renews within `answerWithinMs`. */
const lockStaleMs = 30_000
const lockEveryMs = 50

export const loginsFile = (env: NodeJS.ProcessEnv): string => join(settingsFolder(env), 'logins.json')

/** Says where a login is kept, for messages. */
export const loginPlace = 'the login of this command line'

const isLogin = (value: unknown): value is Login => {
  const { token, secret, access, access_until, expires_at, next } = (value ?? {}) as Record<string, unknown>
  return (
    [token, secret, access, expires_at].every((text) => typeof text === 'string') &&
    typeof access_until === 'number' &&
    (next === undefined || typeof next === 'string')
  )
}

/** Returns the logins; empty without a file. Throws Failure if others can access it or it is invalid. */
export function readLogins(file: string): Logins {
  const text = readPrivately(file)
  if (text === undefined) return new Map()
  let logins: unknown
  try {
    logins = (JSON.parse(text) as { logins?: unknown } | null)?.logins
  } catch {}
  if (typeof logins === 'object' && logins !== null && !Array.isArray(logins) && Object.values(logins).every(isLogin)) {
    return new Map(Object.entries(logins))
  }
  // The text contains secrets, so it is not quoted.
  throw new Failure(
    `The file ${file} is damaged: remove it, and log in again with \`wardline login <url>\`.`,
    'configuration',
    'configuration',
  )
}

/** Returns who holds the lock; undefined: no one. */
function holderOf(lock: string): string | undefined {
  try {
    return readFileSync(lock, 'utf8')
  } catch {
    return undefined
  }
}

/**
 * Runs `work` while no other command changes the file. One that was paused for longer than `lockStaleMs` loses the lock:
 * `isOurs` says whether it still has it.
 */
async function locked<Result>(
  file: string,
  work: (isOurs: () => boolean) => Promise<Result> | Result,
): Promise<Result> {
  const lock = `${file}.lock`
  const name = newSecret()
  const isOurs = () => holderOf(lock) === name
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  for (;;) {
    try {
      writeFileSync(lock, name, { flag: 'wx', mode: 0o600 })
      break
    } catch (fault) {
      if ((fault as NodeJS.ErrnoException).code !== 'EEXIST') throw fault
      const { mtimeMs } = statSync(lock, { throwIfNoEntry: false }) ?? { mtimeMs: Date.now() }
      if (Date.now() - mtimeMs <= lockStaleMs) {
        await pause(lockEveryMs)
        continue
      }
      // Replaced rather than removed: of several commands that find it stale, the last one has it, and the others notice.
      const draft = `${lock}.${name}`
      writeFileSync(draft, name, { flag: 'wx', mode: 0o600 })
      renameSync(draft, lock)
      if (isOurs()) break
    }
  }
  try {
    return await work(isOurs)
  } finally {
    if (isOurs()) rmSync(lock, { force: true })
  }
}

/** Stores or removes a login. Without any, there is no file. */
function store(file: string, url: string, login: Login | undefined): void {
  const logins = new Map(readLogins(file))
  if (login) logins.set(url, login)
  else logins.delete(url)
  if (logins.size === 0) rmSync(file, { force: true })
  else writePrivately(file, { logins: Object.fromEntries(logins) })
}

export const setLogin = (file: string, url: string, login: Login | undefined): Promise<void> =>
  locked(file, () => store(file, url, login))

type Granted = ReplyOf<'renewCommandLogin'>

/** Returns the login to store after an answer to a request that was sent at `sentAt`. */
export const granted = (
  { token, secret }: Pick<Login, 'token' | 'secret'>,
  { access, access_seconds, expires_at }: Granted,
  sentAt: number,
): Login => ({ token, secret, access, access_until: sentAt + access_seconds * 1_000 - renewBeforeMs, expires_at })

export const loginEnded = (url: string): Failure =>
  new Failure(
    `The login at ${url} has expired or was ended: run \`wardline login ${url}\`, or \`wardline logout ${url}\` to use a key.`,
    'unauthorized',
    'unauthorized',
  )

/** Returns a new secret: 32 random bytes. */
export const newSecret = (): string => process.getBuiltinModule('node:crypto').randomBytes(32).toString('base64url')

/**
 * Renews the access, unless another command has just done so. Undefined: another command took the lock over. Rejects with
 * WardlineError, or with Failure if the login has ended.
 */
const renewOnce = (file: string, url: string): Promise<Login | undefined> =>
  locked(file, async (isOurs) => {
    const login = readLogins(file).get(url)
    if (!login) throw loginEnded(url)
    if (login.access_until > Date.now()) return login
    const next = login.next ?? newSecret()
    if (login.next === undefined) store(file, url, { ...login, next })
    // After it was stored: who takes the lock over from here on reads the same next secret, and repeats this attempt.
    if (!isOurs()) return undefined
    const { token, secret } = login
    const sentAt = Date.now()
    const call = createClient({ url, send: sendHttp })
    try {
      const signal = AbortSignal.timeout(answerWithinMs)
      const answer = await call('renewCommandLogin', { body: { token, secret, next }, signal })
      const renewed = granted({ token, secret: next }, answer, sentAt)
      // Another command may have replaced this secret by now.
      if (isOurs()) store(file, url, renewed)
      return renewed
    } catch (fault) {
      throw fault instanceof WardlineError && fault.status === 401 ? loginEnded(url) : fault
    }
  })

async function renew(file: string, url: string): Promise<Login> {
  for (;;) {
    const login = await renewOnce(file, url)
    if (login) return login
  }
}

/** Returns what finds the access token to send, renewed when it is due. */
export function accessOf(file: string, url: string, login: Login): () => Promise<string> {
  let current = login
  return async () => {
    if (current.access_until <= Date.now()) current = await renew(file, url)
    return current.access
  }
}
