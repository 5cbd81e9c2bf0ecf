import { generateKeyPairSync, sign } from 'node:crypto'
import type { KeyType } from '@wardline/contract'
import { crc32Base62 } from '@wardline/text'
import { awsKeyIdBody, azureStorageKey, gitlabRoutableToken } from './decoy-checksums.ts'
import { opensshPrivateKey } from './decoy-openssh.ts'
import { alphabets, drawText, pick, type RandomBytes, randomBelow, secureRandom } from './decoy-random.ts'
import { holdsOneMark } from './key-formats.ts'

/**
 * `value` is shown once and can be planted unchanged: the bare key, or for `aws` and `twilio` the two lines of a
 * credentials file, because their halves are only convincing together. Each of the canonical `fingerprintForms`
 * identifies this decoy alone; `keyCandidates` yields the same texts from whatever an agent submits.
 */
export interface GeneratedDecoy {
  value: string
  fingerprintForms: string[]
}

/**
 * Generates a decoy in the real format of its kind, including the checksum, in well under a millisecond. A seeded
 * `random` reproduces the result, except for the signature of a `jwt`.
 */
export function generateDecoyKey(keyType: KeyType, random: RandomBytes = secureRandom): GeneratedDecoy {
  return generators[keyType](random)
}

const generators: Record<KeyType, (random: RandomBytes) => GeneratedDecoy> = {
  // The text in the middle is base64 of "OpenAI"; every published sample ends in A.
  openai: (random) =>
    single({}, () => {
      const halves = firmText(random, alphabets.base64url, 147)
      return `sk-proj-${halves.slice(0, 74)}T3BlbkFJ${halves.slice(74)}A`
    }),
  anthropic: (random) => single({}, () => `sk-ant-api03-${firmText(random, alphabets.base64url, 93)}AA`),
  deepseek: (random) => single({ kinds: [/\d/, /[a-f]/] }, () => `sk-${drawText(random, alphabets.hex, 32)}`),
  aws,
  github: (random) => single({}, () => checksummed(random, 'ghp_')),
  gitlab: (random) => single({ entropyFloor: 3.6 }, () => routableToken(random)),
  slack: (random) =>
    single({}, () => {
      const [team, bot] = [countingNumber(random, 12), countingNumber(random, 13)]
      return `xoxb-${team}-${bot}-${drawText(random, alphabets.base62, 24)}`
    }),
  stripe: (random) =>
    single({}, () => {
      const body = drawText(random, alphabets.base62, 87)
      return `sk_live_51${body}00${drawText(random, alphabets.base62, 8)}`
    }),
  google: (random) => single({ entropyFloor: 4 }, () => `AIzaSy${firmText(random, alphabets.base64url, 33)}`),
  sendgrid: (random) =>
    single({}, () => {
      const id = firmText(random, alphabets.base64url, 22)
      return `SG.${id}.${firmText(random, alphabets.base64url, 43)}`
    }),
  npm: (random) => single({}, () => checksummed(random, 'npm_')),
  huggingface: (random) => single({ kinds: bothCases }, () => `hf_${drawText(random, alphabets.letters, 34)}`),
  twilio,
  azure_client_secret: (random) =>
    single({ markPlace: 3 }, () => {
      const head = firmText(random, `${alphabets.base62}_~.`, 3)
      return `${head}8Q~${firmText(random, `${alphabets.base62}_~.-`, 34)}`
    }),
  azure_storage: (random) => single({ entropyFloor: 4, markPlace: 76 }, () => azureStorageKey(random(57))),
  postgres_url: postgresUrl,
  jwt,
  ssh_private_key: sshPrivateKey,
  ethereum,
  // The caller puts the address of the service before it.
  url: (random) => single({ kinds: mixed }, () => drawText(random, alphabets.base62, 32)),
  generic: (random) => single({ entropyFloor: 3.5 }, () => drawText(random, alphabets.base62, 40)),
}

const bothCases = [/[A-Z]/, /[a-z]/]
const mixed = [/\d/, ...bothCases]

interface Rules {
  /** Bits of entropy per character, as scanners compute it, that the value must exceed. */
  entropyFloor?: number
  /** Character classes that must all occur. */
  kinds?: readonly RegExp[]
  /** Index of the format's mark. */
  markPlace?: number
}

function single(rules: Rules, make: () => string): GeneratedDecoy {
  const value = convincing(rules, make)
  return { value, fingerprintForms: [value] }
}

/** Texts that scanners drop as placeholders, or that reveal the key as bait; compared in lower case. */
const unconvincing = /example|sample|x{6}|a{6}|abcde|0{5}|12345|test|dummy|fake|canary|decoy|honey|trap|wardline/

/** Draws until a scanner would report the value, and no second key begins inside it. */
function convincing({ entropyFloor = 3, kinds = mixed, markPlace = 0 }: Rules, make: () => string): string {
  return draw(
    make,
    (text) =>
      shannonEntropy(text) > entropyFloor &&
      kinds.every((kind) => kind.test(text)) &&
      !unconvincing.test(text.toLowerCase()) &&
      holdsOneMark(text, markPlace),
  )
}

/**
 * Draws a text without punctuation at either end: a scanner's word boundary would cut it off, and a leading `-` reads
 * as an option.
 */
function firmText(random: RandomBytes, alphabet: string, length: number): string {
  return draw(
    () => drawText(random, alphabet, length),
    (text) => /^[A-Za-z0-9].*[A-Za-z0-9]$/.test(text),
  )
}

/** A seeded source that never satisfies the rules must fail instead of looping for ever. */
const maxDraws = 1000

function draw(make: () => string, accept: (text: string) => boolean): string {
  for (let attempt = 0; attempt < maxDraws; attempt++) {
    const text = make()
    if (accept(text)) return text
  }
  throw new Error('The random source produces no plausible decoy')
}

/** Bits per character, from the frequencies in the text itself. */
function shannonEntropy(text: string): number {
  const counts = new Map<string, number>()
  for (const character of text) counts.set(character, (counts.get(character) ?? 0) + 1)
  let bits = 0
  for (const count of counts.values()) bits -= (count / text.length) * Math.log2(count / text.length)
  return bits
}

function checksummed(random: RandomBytes, prefix: string): string {
  const entropy = drawText(random, alphabets.base62, 30)
  return prefix + entropy + crc32Base62(entropy)
}

function routableToken(random: RandomBytes): string {
  return draw(
    // User numbers between 36^4 and 36^5 keep the token's length constant.
    () => gitlabRoutableToken(random(16), { c: 1, o: 1, u: 1_679_616 + randomBelow(random, 28_000_000) }),
    (token) => /^glpat-[A-Za-z0-9]/.test(token),
  )
}

function countingNumber(random: RandomBytes, length: number): string {
  return drawText(random, '123456789', 1) + drawText(random, alphabets.digits, length - 1)
}

function aws(random: RandomBytes): GeneratedDecoy {
  const id = convincing({ kinds: [/[2-7]/, /[A-Z]/] }, () => {
    // Twelve random digits for every decoy: a constant account number would unmask all of them at once.
    const account = 100_000_000_000 + randomBelow(random, 900_000_000_000)
    // This low bit is set in three of four real ids.
    const markedBit = randomBelow(random, 4) > 0 ? 1n << 7n : 0n
    const tail = BigInt(`0x${Buffer.from(random(5)).toString('hex')}`) & ~(1n << 7n)
    return `AKIA${awsKeyIdBody(account, tail | markedBit)}`
  })
  const secret = convincing({ entropyFloor: 4.25 }, () => firmText(random, alphabets.base64, 40))
  return { value: `aws_access_key_id = ${id}\naws_secret_access_key = ${secret}`, fingerprintForms: [id, secret] }
}

function twilio(random: RandomBytes): GeneratedDecoy {
  const kinds = [/\d/, /[a-f]/]
  const account = convincing({ kinds }, () => `AC${drawText(random, alphabets.hex, 32)}`)
  const token = convincing({ kinds }, () => drawText(random, alphabets.hex, 32))
  return { value: `TWILIO_ACCOUNT_SID=${account}\nTWILIO_AUTH_TOKEN=${token}`, fingerprintForms: [account, token] }
}

/** An invented name of six letters: names from a list could be recognised by readers of this file. */
function organisation(random: RandomBytes): string {
  const syllable = (): string => pick(random, [...'bdfgklmnprstv']) + pick(random, [...'aeiou'])
  return draw(
    () => syllable() + syllable() + syllable(),
    (name) => !unconvincing.test(name),
  )
}

/** `.internal` is reserved for private networks, so no stranger's server is ever called. */
function internalHost(random: RandomBytes, service: readonly string[]): string {
  const stage = pick(random, ['prod', 'prd', 'live', 'main'])
  return `${pick(random, service)}-${stage}-${1 + randomBelow(random, 9)}.${organisation(random)}.internal`
}

function postgresUrl(random: RandomBytes): GeneratedDecoy {
  const host = internalHost(random, ['db', 'pg', 'postgres', 'pgbouncer', 'warehouse'])
  const user = pick(random, ['app_rw', 'svc_billing', 'api_owner', 'etl_writer', 'migrator', 'reporting'])
  const database = pick(random, ['billing', 'customers', 'payments', 'accounts', 'orders', 'ledger'])
  const password = convincing({ entropyFloor: 3.5 }, () => drawText(random, alphabets.base62, 32))
  const value = `postgresql://${user}:${password}@${host}:5432/${database}`
  return { value, fingerprintForms: [value, password] }
}

/**
 * A service token without an expiry, so that it stays worth stealing. ES256, because scanners skip tokens signed with a
 * shared secret. The signing key is not kept.
 */
function jwt(random: RandomBytes): GeneratedDecoy {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const area = pick(random, ['billing', 'deploy', 'ledger', 'identity', 'payments', 'warehouse'])
  const issuer = `https://${internalHost(random, ['auth', 'sso', 'idp'])}`
  return single({ entropyFloor: 4 }, () => {
    const header = { alg: 'ES256', kid: drawText(random, alphabets.base62, 20), typ: 'JWT' }
    const claims = { iss: issuer, sub: `svc-${area}`, aud: `${area}-api`, scope: `${area}:read ${area}:write` }
    const jti = Buffer.from(random(16)).toString('hex')
    const signed = [header, { ...claims, jti }].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
    const signature = sign('sha256', Buffer.from(signed.join('.')), { key: privateKey, dsaEncoding: 'ieee-p1363' })
    return `${signed.join('.')}.${signature.toString('base64url')}`
  })
}

/** The canonical form is the base64 body without line breaks and padding, which survives any way of quoting a file. */
function sshPrivateKey(random: RandomBytes): GeneratedDecoy {
  // Comments of one length keep the body's length constant, so that it can be cut out of other text.
  const user = pick(random, ['deploy', 'ubuntu', 'runner'])
  const comment = `${user}@${organisation(random)}-0${1 + randomBelow(random, 9)}`
  const value = draw(
    () => opensshPrivateKey(random(32), random(4), comment),
    (pem) => holdsOneMark(opensshBody(pem), 0),
  )
  return { value, fingerprintForms: [opensshBody(value)] }
}

function opensshBody(pem: string): string {
  return pem.replace(/-----[^-]+-----/g, '').replace(/[\s=]/g, '')
}

/** The order of the secp256k1 group: a private key lies between 1 and this number, exclusive (SEC 2, section 2.4.1). */
const secp256k1Order = 'fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141'

function ethereum(random: RandomBytes): GeneratedDecoy {
  const key = convincing({ kinds: [/\d/, /[a-f]/] }, () =>
    draw(
      () => drawText(random, alphabets.hex, 64),
      (text) => text < secp256k1Order,
    ),
  )
  return { value: `0x${key}`, fingerprintForms: [key] }
}
