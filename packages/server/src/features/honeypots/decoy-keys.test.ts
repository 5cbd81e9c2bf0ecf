import { execFileSync } from 'node:child_process'
import { createECDH, createHash, createPrivateKey, createPublicKey, ECDH, sign, verify } from 'node:crypto'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type KeyType, keyTypes } from '@wardline/contract'
import { crc32Base62 } from '@wardline/text'
import { describe, expect, test } from 'vitest'
import { awsAccountOf } from '../../testing/aws-account.ts'
import { isAzureStorageKey, isGitlabRoutableToken } from './decoy-checksums.ts'
import { generateDecoyKey } from './decoy-keys.ts'
import type { RandomBytes } from './decoy-random.ts'

function seeded(seed: string): RandomBytes {
  let block = 0
  return (size) => createHash('shake256', { outputLength: size }).update(`${seed}:${block++}`).digest()
}

function samples(keyType: KeyType, count = 60) {
  return Array.from({ length: count }, (_, index) => generateDecoyKey(keyType, seeded(`${keyType}-${index}`)))
}

/** Patterns of two widespread secret scanners, gitleaks and TruffleHog; empty for a kind without a rule. */
const scanners: Record<KeyType, RegExp[]> = {
  openai: [
    /^sk-(?:proj|svcacct|admin)-(?:[\w-]{74}|[\w-]{58})T3BlbkFJ(?:[\w-]{74}|[\w-]{58})\b$/,
    /\bsk-(?:proj|svcacct|service)-[A-Za-z0-9_-]+T3BlbkFJ[A-Za-z0-9_-]+\b/,
  ],
  anthropic: [/\bsk-ant-api03-[\w-]{93}AA\b/],
  deepseek: [/\bsk-[a-z0-9]{32}\b/],
  aws: [
    /\b(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b/,
    /(?:^|[^A-Za-z0-9+/])[A-Za-z0-9+/]{40}(?:$|[^A-Za-z0-9+/])/,
  ],
  github: [/ghp_[0-9a-zA-Z]{36}/, /\b(?:ghp|gho|ghu|ghs|ghr|github_pat)_[a-zA-Z0-9_]{36,255}\b/],
  gitlab: [/glpat-[\w-]{20}/, /\bglpat-[a-zA-Z0-9\-=_]{27,300}\.[0-9a-z]{2}\.[a-z0-9]{9}\b/],
  slack: [/xoxb-[0-9]{10,13}-[0-9]{10,13}[a-zA-Z0-9-]*/],
  stripe: [/\b(?:sk|rk)_(?:test|live|prod)_[a-zA-Z0-9]{10,99}\b/, /[rs]k_live_[a-zA-Z0-9]{20,247}/],
  google: [/\bAIza[\w-]{35}(?![\w-])/, /\bAIzaSy[A-Za-z0-9_-]{33}\b/],
  sendgrid: [/\bSG\.[a-z0-9=_\-.]{66}(?![\w-])/i, /\bSG\.[\w-]{20,24}\.[\w-]{39,50}\b/],
  npm: [/\bnpm_[a-z0-9]{36}\b/i, /\bnpm_[0-9a-zA-Z]{36}\b/],
  huggingface: [/\bhf_[a-z]{34}\b/i, /\b(?:hf_|api_org_)[a-zA-Z0-9]{34}\b/],
  twilio: [/\bAC[0-9a-f]{32}\b/, /\b[0-9a-f]{32}\b/],
  azure_client_secret: [/^[a-zA-Z0-9_~.]{3}\dQ~[a-zA-Z0-9_~.-]{31,34}$/],
  azure_storage: [/^[A-Za-z0-9+/]{76}\+ASt[A-Za-z0-9+/]{5}[AQgw]==$/],
  postgres_url: [/\bpostgres(?:ql)?:\/\/\S+\b/],
  jwt: [/\bey[a-zA-Z0-9]{17,}\.ey[a-zA-Z0-9/\\_-]{17,}\.[a-zA-Z0-9/\\_-]{10,}/],
  ssh_private_key: [/-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY-----[\s\S-]{64,}?-----END/],
  ethereum: [/^0x[0-9a-f]{64}$/],
  url: [],
  generic: [/^[A-Za-z0-9]{32,48}$/],
}

describe.each(keyTypes)('a decoy of kind %s', (keyType) => {
  const decoys = samples(keyType)

  test('matches the patterns of secret scanners', () => {
    for (const { value } of decoys) for (const pattern of scanners[keyType]) expect(value).toMatch(pattern)
  })

  test('repeats for the same random bytes only', () => {
    const values = new Set(decoys.map(({ value }) => value))
    expect(values.size).toBe(decoys.length)
    if (keyType === 'jwt') return
    expect(generateDecoyKey(keyType, seeded(`${keyType}-0`))).toEqual(decoys[0])
  })

  test('shares no fingerprint with another decoy', () => {
    const forms = decoys.flatMap(({ fingerprintForms }) => fingerprintForms)
    expect(new Set(forms).size).toBe(forms.length)
    for (const form of forms) expect(form.length).toBeGreaterThanOrEqual(20)
  })

  // Scanners drop placeholders, and an attacker's language model notices a word that reveals a decoy.
  test('contains no word that reveals it', () => {
    const words = /example|sample|test|dummy|fake|canary|decoy|honey|trap|wardline|monitor/i
    for (const { value } of decoys) expect(value).not.toMatch(words)
  })

  test('comes from the system’s random source by default', () => {
    expect(generateDecoyKey(keyType).value).not.toBe(generateDecoyKey(keyType).value)
  })
})

describe('checksums of decoys', () => {
  test('are valid for GitHub and npm', () => {
    for (const { value } of [...samples('github'), ...samples('npm')]) {
      expect(value.slice(-6)).toBe(crc32Base62(value.slice(4, 34)))
    }
  })

  test('are valid for GitLab and Azure storage', () => {
    for (const { value } of samples('gitlab')) expect(isGitlabRoutableToken(value)).toBe(true)
    for (const { value } of samples('azure_storage')) expect(isAzureStorageKey(value)).toBe(true)
  })
})

describe('aws', () => {
  // Scanners decode the account from the id; one constant account would unmask every decoy of every installation.
  test('gives every decoy a different account', () => {
    const accounts = samples('aws').map(({ fingerprintForms }) => awsAccountOf(fingerprintForms[0]!))
    expect(new Set(accounts).size).toBe(accounts.length)
    for (const account of accounts) expect(String(account)).toMatch(/^\d{12}$/)
  })

  test('yields two lines of a credentials file, and a fingerprint for each half', () => {
    for (const { value, fingerprintForms } of samples('aws')) {
      const [id, secret] = fingerprintForms
      expect(value).toBe(`aws_access_key_id = ${id}\naws_secret_access_key = ${secret}`)
    }
  })
})

test('a postgres decoy is a URL to a private host, with its password as a second fingerprint', () => {
  for (const { value, fingerprintForms } of samples('postgres_url')) {
    const url = new URL(value)
    expect(url.hostname).toMatch(/\.internal$/)
    expect(fingerprintForms).toEqual([value, url.password])
  }
})

test('a jwt decoy has a readable body and an ES256 signature of full length', () => {
  for (const { value } of samples('jwt', 20)) {
    const [header, body, signature] = value.split('.').map((part) => Buffer.from(part, 'base64url'))
    expect(JSON.parse(header!.toString())).toMatchObject({ alg: 'ES256', typ: 'JWT' })
    expect(Object.keys(JSON.parse(body!.toString()))).toEqual(['iss', 'sub', 'aud', 'scope', 'jti'])
    expect(signature).toHaveLength(64)
  }
})

test('an ethereum decoy is a valid secp256k1 key', () => {
  for (const { fingerprintForms } of samples('ethereum', 20)) {
    const curve = createECDH('secp256k1')
    curve.setPrivateKey(fingerprintForms[0]!, 'hex')
    expect(ECDH.convertKey(curve.getPublicKey(), 'secp256k1', undefined, 'hex', 'compressed')).toHaveLength(66)
  }
})

describe('ssh_private_key', () => {
  test('is a complete OpenSSH file with a matching key pair', () => {
    for (const { value, fingerprintForms } of samples('ssh_private_key', 20)) {
      const body = value.replace(/-----[^-]+-----|\n/g, '')
      expect(body.replace(/=+$/, '')).toBe(fingerprintForms[0])
      const { seed, publicKey, padding } = parseOpenssh(Buffer.from(body, 'base64'))
      expect([...padding]).toEqual(Array.from(padding, (_, index) => index + 1))
      const der = Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), seed])
      const privateKey = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' })
      const jwk = { kty: 'OKP', crv: 'Ed25519', x: publicKey.toString('base64url') }
      const signature = sign(null, Buffer.from('x'), privateKey)
      expect(verify(null, Buffer.from('x'), createPublicKey({ key: jwk, format: 'jwk' }), signature)).toBe(true)
    }
  })

  test.skipIf(!existsSync('/usr/bin/ssh-keygen'))('is accepted by ssh-keygen, if installed', () => {
    const folder = mkdtempSync(join(tmpdir(), 'key-'))
    try {
      writeFileSync(join(folder, 'id'), generateDecoyKey('ssh_private_key').value, { mode: 0o600 })
      expect(execFileSync('/usr/bin/ssh-keygen', ['-y', '-f', join(folder, 'id')], { encoding: 'utf8' })).toMatch(
        /^ssh-ed25519 AAAA\S+ \w+@\w{6}-0\d\n$/,
      )
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
})

test('throws instead of looping when a random source never yields a plausible decoy', () => {
  expect(() => generateDecoyKey('generic', (size) => new Uint8Array(size))).toThrow('plausible')
})

/** Independent parser of OpenSSH's key file, PROTOCOL.key. */
function parseOpenssh(bytes: Buffer) {
  let place = Buffer.byteLength('openssh-key-v1\0')
  expect(bytes.subarray(0, place).toString()).toBe('openssh-key-v1\0')
  const field = (): Buffer => {
    const length = bytes.readUInt32BE(place)
    place += 4 + length
    return bytes.subarray(place - length, place)
  }
  expect([field(), field(), field()].map(String)).toEqual(['none', 'none', ''])
  expect(bytes.readUInt32BE(place)).toBe(1)
  place += 4
  const publicBlob = field()
  const secretLength = bytes.readUInt32BE(place)
  place += 4
  expect(place + secretLength).toBe(bytes.length)
  expect(secretLength % 8).toBe(0)
  expect(bytes.readUInt32BE(place)).toBe(bytes.readUInt32BE(place + 4))
  place += 8
  expect(String(field())).toBe('ssh-ed25519')
  const publicKey = field()
  const pair = field()
  expect(publicBlob.subarray(-32)).toEqual(publicKey)
  expect(pair.subarray(32)).toEqual(publicKey)
  field()
  return { seed: pair.subarray(0, 32), publicKey, padding: bytes.subarray(place) }
}
