import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { identityRegistryOf } from '../features/chain/known-contracts.ts'
import {
  ConfigError,
  currentUrl,
  databaseFile,
  describeConfig,
  readConfig,
  settings,
  withoutConfiguredSecrets,
} from './config.ts'

const folder = mkdtempSync(join(tmpdir(), 'wardline-config-'))
afterAll(() => rmSync(folder, { recursive: true }))
const fileWith = (text: string) => {
  const file = join(folder, String(Math.abs(text.length)) + text.slice(0, 1))
  writeFileSync(file, text)
  return file
}
const faultsOf = (env: Record<string, string>): string[] => {
  try {
    readConfig(env)
  } catch (fault) {
    expect(fault).toBeInstanceOf(ConfigError)
    return (fault as ConfigError).faults
  }
  return []
}
const long = 'a-secret-of-more-than-32-characters'
const webhookSecret = (letter: string) => `whsec_${Buffer.alloc(32, letter).toString('base64')}`
/** The secret alert settings, each with the text inside its value. */
const alertSecrets = (text: string): Record<string, string> => ({
  ALERT_WEBHOOK_URL: `https://hooks.example.com/${text}`,
  ALERT_WEBHOOK_SECRET: webhookSecret(text),
  SLACK_WEBHOOK_URL: `https://hooks.slack.com/services/${text}`,
  DISCORD_WEBHOOK_URL: `https://discord.com/api/webhooks/${text}`,
  TEAMS_WEBHOOK_URL: `https://teams.example.com/${text}`,
  TELEGRAM_BOT_TOKEN: `123456:${text.padEnd(10, '-')}`,
  PAGERDUTY_ROUTING_KEY: text.replaceAll('-', '').padEnd(32, 'x').slice(0, 32),
  SMTP_URL: `smtps://user:${text}@mail.example.com`,
  NTFY_URL: `https://ntfy.sh/${text}`,
})
const alertAddresses = {
  TELEGRAM_CHAT_ID: '-100123',
  ALERT_EMAIL_FROM: 'wardline@example.com',
  ALERT_EMAIL_TO: 'on-call@example.com',
}

describe('readConfig', () => {
  it('needs no variables', () => {
    const config = readConfig({})
    expect(config).toMatchObject({
      host: '127.0.0.1',
      port: 4747,
      dataDir: './data',
      retentionDays: 90,
      trustEnabled: true,
    })
    expect(databaseFile(config)).toBe('data/wardline.db')
    expect(databaseFile(readConfig({ DATABASE_URL: 'sqlite:/srv/x.db' }))).toBe('/srv/x.db')
  })

  it('treats an empty value as unset', () => {
    expect(readConfig({ PORT: '', WARDLINE_API_KEY: '', WARDLINE_API_KEY_FILE: '' })).toEqual(readConfig({}))
  })

  it('reports all faults at once', () => {
    const faults = faultsOf({
      PORT: '70000',
      WARDLINE_RETENTION_DAYS: '1.5',
      WARDLINE_STREAM_AUTH: 'maybe',
      TRUST_PUBLIC_ENABLED: 'yes',
      WARDLINE_API_KEY: 'short',
      WARDLINE_TRUSTED_PROXIES: '10.0.0.0/8,10.0.0.0/33',
      WARDLINE_PROT: '1',
    })
    expect(faults).toHaveLength(7)
    expect(faults.join('\n')).toContain('PORT must be a whole number from 0 to 65535.')
    expect(faults.join('\n')).toContain('WARDLINE_STREAM_AUTH must be one of none, session.')
    expect(faults.join('\n')).toContain('TRUST_PUBLIC_ENABLED must be one of true, false.')
    expect(faults.join('\n')).toContain('"10.0.0.0/33" is neither.')
  })

  it.each([
    ['PORT', '4747 '],
    ['PORT', '+1'],
    ['PORT', '0x10'],
    ['PORT', '1e3'],
    ['WARDLINE_RETENTION_DAYS', '0'],
    ['WARDLINE_TRUSTED_PROXIES', 'example.com'],
    ['WARDLINE_TRUSTED_PROXIES', '10.0.0.0/'],
    ['WARDLINE_TRUSTED_PROXIES', '10.0.0.1,'],
    ['DATABASE_URL', 'mysql://x'],
    ['DATABASE_URL', 'sqlite:'],
    ['BACKPLANE_URL', 'localhost:6379'],
    ['BACKPLANE_URL', 'http://localhost:6379'],
    ['BACKPLANE_URL', 'redis://'],
    ['BACKPLANE_URL', 'redis://localhost:70000'],
    ['BACKPLANE_URL', 'redis://user:100%@localhost'],
    ['BACKPLANE_URL', 'redis://localhost:6379,'],
    ['BACKPLANE_URL', 'redis://a:1,b:70000'],
    ['BACKPLANE_URL', 'redis://a,b,c,d,e,f,g,h,i'],
    ['BACKPLANE_URL', 'redis+sentinel://a:26379,b:26379'],
    ['BACKPLANE_URL', 'redis+sentinel://user:100%@a/mymaster'],
    ['BACKPLANE_URL', 'redis+cluster://a:1'],
    ['EVENTS_CHANNEL', 'two words'],
    ['EVENTS_CHANNEL', 'tab\t'],
    ['CONTROL_CHANNEL', 'x'.repeat(201)],
    ['CONTROL_CHANNEL', 'kontrolle-für-alle'],
    ['TRUST_WALLET_ADDRESS', '0x12'],
    ['TRUST_RPC_URL', 'ftp://node.example'],
    ['TRUST_RPC_URL', 'https://user:secret@node.example'],
    ['TRUST_SIGNER_URL', 'http://signer.example /'],
    ['TRUST_AGENT_ID', '-1'],
    ['WARDLINE_LOG_LEVEL', 'INFO'],
    ['WARDLINE_TELEMETRY_CONTENT', 'prompts'],
    ['WARDLINE_TELEMETRY_CONTENT', 'true'],
  ])('refuses %s=%s', (name, value) => {
    expect(faultsOf({ [name]: value })).toEqual([
      expect.stringMatching(new RegExp(`^${name} must (be|not contain|begin with) .*\\.$`)),
    ])
  })

  // The examples of EIP-55, and each with one letter in the other case.
  it.each([
    '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed',
    '0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359',
    '0x52908400098527886E0F7030069857D2E4169EE7',
    '0xde709f2102306220921060314715629080e2fb77',
  ])('takes the address %s, and no other spelling with a checksum', (address) => {
    expect(faultsOf({ TRUST_WALLET_ADDRESS: address })).toEqual([])
    expect(faultsOf({ TRUST_WALLET_ADDRESS: address.toLowerCase() })).toEqual([])
    const at = [...address].findIndex((digit, place) => place > 2 && /[a-f]/i.test(digit))
    const digit = address[at]!
    const other = digit === digit.toLowerCase() ? digit.toUpperCase() : digit.toLowerCase()
    const wrong = `${address.slice(0, at)}${other}${address.slice(at + 1)}`
    expect(faultsOf({ TRUST_WALLET_ADDRESS: wrong })).toEqual([
      `TRUST_WALLET_ADDRESS has a wrong checksum in its capital letters: compare it with ${address}, and correct it.`,
    ])
  })

  // A guessed registry would be an address without code, which takes the fee of every call.
  it('knows the registries of 23 chains and 24 test networks, and of others takes no address for granted', () => {
    const registryOn = (chain: number) => identityRegistryOf(readConfig({ TRUST_CHAIN_ID: String(chain) }))
    for (const chain of [1, 10, 137, 8453, 42161, 1187947933]) expect(registryOn(chain)).toMatch(/^0x8004A169/)
    for (const chain of [97, 80002, 84532, 421614, 11155111, 324705682])
      expect(registryOn(chain)).toMatch(/^0x8004A818/)
    expect(faultsOf({ TRUST_CHAIN_ID: '31337' })).toEqual([
      'TRUST_CHAIN_ID=31337 is none of the chains whose registries are known: set TRUST_ERC8004_REGISTRY to the identity registry there.',
    ])
    expect(faultsOf({ TRUST_CHAIN_ID: '31337', TRUST_ERC8004_REGISTRY: `0x${'1'.repeat(40)}` })).toEqual([])
  })

  it('takes up to ten other attesters with a node and a wallet, and never the own wallet', () => {
    const [wallet, ...others] = Array.from({ length: 12 }, (_, at) => `0x${String(at).padStart(40, '2')}`)
    const complete = { TRUST_RPC_URL: 'https://node.example', TRUST_WALLET_ADDRESS: wallet! }
    const faultsWith = (attesters: string[], env: Record<string, string> = complete) =>
      faultsOf({ ...env, TRUST_OTHER_ATTESTERS: attesters.join(',') })
    expect(faultsWith(others.slice(0, 10))).toEqual([])
    expect(
      readConfig({ ...complete, TRUST_OTHER_ATTESTERS: `${others[0]}, ${others[1]}` }).trustOtherAttesters,
    ).toEqual(others.slice(0, 2))
    const limit = 'TRUST_OTHER_ATTESTERS must be at most 10 different addresses, separated by commas.'
    expect(faultsWith(others)).toEqual([limit])
    const [letters] = ['0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359']
    expect(faultsWith([letters!, '0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359'])).toEqual([limit])
    expect(faultsWith(['0xFb6916095ca1df60bB79Ce92cE3Ea74c37c5d359'])[0]).toMatch(/^TRUST_OTHER_ATTESTERS has a wrong/)
    expect(
      faultsWith([letters!.toUpperCase().replace('X', 'x')], { ...complete, TRUST_WALLET_ADDRESS: letters! }),
    ).toEqual([
      'TRUST_OTHER_ATTESTERS contains TRUST_WALLET_ADDRESS, whose attestations are those of the operators: remove it.',
    ])
    expect(faultsWith([others[0]!], {})).toEqual([
      'TRUST_OTHER_ATTESTERS needs TRUST_RPC_URL: set it to a node of the chain.',
      'TRUST_OTHER_ATTESTERS needs TRUST_WALLET_ADDRESS: set it to the wallet that they attest about.',
    ])
    const unknown = { ...complete, TRUST_CHAIN_ID: '31337', TRUST_ERC8004_REGISTRY: wallet! }
    expect(faultsWith([others[0]!], unknown)).toEqual([
      'TRUST_OTHER_ATTESTERS needs TRUST_EAS_ADDRESS or TRUST_REPUTATION_REGISTRY on this chain: set one.',
    ])
    expect(faultsWith([others[0]!], { ...unknown, TRUST_EAS_ADDRESS: wallet! })).toEqual([])
  })

  // Two processes on copies of one file would each act as the whole service.
  it('has URLs as their files have them now, and never waits for a pipe', () => {
    const path = fileWith('postgres://u:first@db.internal/wardline\n')
    const config = readConfig({ DATABASE_URL_FILE: path })
    writeFileSync(path, 'postgres://u:second@db.internal/wardline\n')
    expect(currentUrl(config, 'databaseUrl')).toBe('postgres://u:second@db.internal/wardline')
    expect(withoutConfiguredSecrets(config, 'first and second')).toBe('(secret) and (secret)')
    writeFileSync(path, 'no URL')
    expect(currentUrl(config, 'databaseUrl')).toBe('postgres://u:first@db.internal/wardline')
    rmSync(path)
    execFileSync('mkfifo', [path])
    expect(currentUrl(config, 'databaseUrl')).toBe('postgres://u:first@db.internal/wardline')
  })

  it('refuses a backplane with SQLite', () => {
    const refusal =
      'BACKPLANE_URL connects several processes, which cannot share a SQLite file: set DATABASE_URL to a PostgreSQL database, or unset BACKPLANE_URL.'
    const backplane = { BACKPLANE_URL: 'rediss://user:pass@redis.internal:6380' }
    expect(faultsOf(backplane)).toEqual([refusal])
    expect(faultsOf({ ...backplane, DATABASE_URL: 'sqlite:/srv/x.db' })).toEqual([refusal])
    expect(faultsOf({ ...backplane, DATABASE_URL: 'postgres://user:pass@db.internal/wardline' })).toEqual([])
  })

  // On a shared channel every kill would be read as an event and shown to all stream readers.
  it('refuses the same channel for events and control messages', () => {
    const refusal = 'EVENTS_CHANNEL and CONTROL_CHANNEL must differ: rename one.'
    expect(faultsOf({ EVENTS_CHANNEL: 'a', CONTROL_CHANNEL: 'a' })).toEqual([refusal])
    expect(faultsOf({ EVENTS_CHANNEL: 'wardline:control' })).toEqual([refusal])
    expect(readConfig({ EVENTS_CHANNEL: 'a:{b}', CONTROL_CHANNEL: 'b' })).toMatchObject({ eventsChannel: 'a:{b}' })
  })

  // If a mistyped name were ignored, a setting meant to restrict access would have no effect.
  it.each([
    ['WARDLINE_METRIC_AUTH', 'WARDLINE_METRICS_AUTH'],
    ['WARDLINE_APIKEY', 'WARDLINE_API_KEY'],
    ['WARDLINE_API_KEY_FIL', 'WARDLINE_API_KEY_FILE'],
    ['WARDLINE_RETENTION_DAY', 'WARDLINE_RETENTION_DAYS'],
  ])('for %s suggests %s', (given, meant) => {
    expect(faultsOf({ [given]: 'x' })).toEqual([`${given} is not a setting; did you mean ${meant}?`])
  })

  it('ignores variables of other programs', () => {
    expect(faultsOf({ PATH: '/bin', TRUSTED: 'x', HOSTNAME: 'x', NODE_ENV: 'x' })).toEqual([])
  })
})

// A service on loopback behind a proxy on the same machine showed every event to the Internet.
describe('stream and metrics', () => {
  const access = (env: Record<string, string>) => {
    const { streamAuth, metricsAuth, accessReason } = readConfig(env)
    return [streamAuth, metricsAuth, accessReason]
  }

  it.each<Record<string, string>>([
    {},
    { HOST: '127.0.0.2' },
    { HOST: '::1' },
    { WARDLINE_PUBLIC_URL: 'http://localhost:4747' },
    { WARDLINE_ALLOWED_HOSTS: 'localhost, 127.0.0.1' },
  ])('need no key while only this machine reaches the service: %j', (env) => {
    expect(access(env)).toEqual(['none', 'none', 'only this machine reaches the service'])
  })

  it.each<[Record<string, string>, string]>([
    [{ HOST: '0.0.0.0' }, 'HOST is 0.0.0.0'],
    [{ HOST: '192.0.2.7' }, 'HOST is 192.0.2.7'],
    [{ WARDLINE_PUBLIC_URL: 'https://w.example.com' }, 'WARDLINE_PUBLIC_URL is https://w.example.com'],
    [{ WARDLINE_ALLOWED_HOSTS: 'localhost,*.example.com' }, 'WARDLINE_ALLOWED_HOSTS is localhost, *.example.com'],
    [{ WARDLINE_TRUSTED_PROXIES: '127.0.0.1' }, 'WARDLINE_TRUSTED_PROXIES is set'],
  ])('need a key as soon as others do: %j', (env, reason) => {
    expect(access(env)).toEqual(['session', 'key', reason])
  })

  it('do as the settings say, even if others reach the service', () => {
    const open = { WARDLINE_STREAM_AUTH: 'none', WARDLINE_METRICS_AUTH: 'none' }
    expect(access({ HOST: '0.0.0.0', ...open }).slice(0, 2)).toEqual(['none', 'none'])
    const closed = { WARDLINE_STREAM_AUTH: 'session', WARDLINE_METRICS_AUTH: 'key' }
    expect(access(closed).slice(0, 2)).toEqual(['session', 'key'])
  })
})

describe('a secret', () => {
  it('is read from a file', () => {
    expect(readConfig({ WARDLINE_API_KEY_FILE: fileWith(`${long}\n`) }).apiKey).toBe(long)
    expect(readConfig({ WARDLINE_SECRET_FILE: fileWith(`${long}s\n`) }).secret).toBe(`${long}s`)
  })

  it('is refused if both the variable and the file are set', () => {
    expect(faultsOf({ WARDLINE_API_KEY: long, WARDLINE_API_KEY_FILE: fileWith(long) })).toEqual([
      'WARDLINE_API_KEY and WARDLINE_API_KEY_FILE exclude each other.',
    ])
  })

  it('is refused if its file is unreadable, empty or too short', () => {
    expect(faultsOf({ WARDLINE_API_KEY_FILE: join(folder, 'missing') })).toEqual([
      'WARDLINE_API_KEY_FILE cannot be read: ENOENT.',
    ])
    for (const text of ['', '\n', 'short\n']) {
      expect(faultsOf({ WARDLINE_SECRET_FILE: fileWith(text) })).toEqual([
        'WARDLINE_SECRET must have at least 32 characters.',
      ])
    }
  })

  // Error messages end up in logs or on shared screens.
  it('never appears in its error message', () => {
    const faults = faultsOf({
      WARDLINE_API_KEY: 'hunter2',
      DATABASE_URL: 'mysql://root:hunter2@x',
      BACKPLANE_URL: 'redis://root:hunter2%@x',
      SLACK_WEBHOOK_URL: 'slack://hunter2',
      SMTP_URL: 'smtp://root:hunter2%@x',
      ALERT_WEBHOOK_SECRET: 'hunter2',
      TELEGRAM_BOT_TOKEN: 'hunter2',
      PAGERDUTY_ROUTING_KEY: 'hunter2',
    })
    expect(faults).toHaveLength(8)
    expect(faults.join()).not.toContain('hunter2')
  })

  it.each([
    ['traces.example.com/{trace_id}', 'must be an http or https URL'],
    ['javascript:alert(1)//{trace_id}', 'must be an http or https URL'],
    ['https://user:hunter2@traces.example.com/{trace_id}', 'must have no user or password'],
    ['https://traces.example.com/', 'must contain {trace_id} once'],
    ['https://traces.example.com/{trace_id}/{trace_id}', 'must contain {trace_id} once'],
    ['https://traces.example.com/{traceId}', 'must contain {trace_id} once'],
    ['https://{trace_id}.example.com/', 'must have {trace_id} in its path, query or fragment'],
  ])('is not in a refusal of the address of traces: %s', (value, rule) => {
    const faults = faultsOf({ WARDLINE_TRACE_URL: value })
    expect(faults).toEqual([expect.stringContaining(`WARDLINE_TRACE_URL ${rule}`)])
    expect(faults.join()).not.toContain('hunter2')
  })

  it('is every setting with the name of one', () => {
    const isNamedSo = (env: string) =>
      /_(URL|SECRET|TOKEN|KEY)$/.test(env) && !/^WARDLINE_(PUBLIC|TRACE|DECOY)_URL$/.test(env)
    const open = Object.values(settings).filter(({ env, secret }) => isNamedSo(env) && !secret)
    expect(open).toEqual([])
  })

  it('is not shown by describeConfig', () => {
    const fitting: Record<string, string> = {
      ...alertSecrets(long),
      DATABASE_URL: `postgres://user:${long}@db.internal/wardline`,
      BACKPLANE_URL: `redis://user:${long}@redis.internal`,
      TRUST_RPC_URL: `https://node.internal/${long}`,
      TRUST_SIGNER_URL: `https://signer.internal/${long}`,
    }
    const oidc = {
      WARDLINE_PUBLIC_URL: 'https://wardline.example.com',
      WARDLINE_OIDC_ISSUER: 'https://login.example.com',
      WARDLINE_OIDC_CLIENT_ID: 'wardline',
    }
    const env = Object.fromEntries(
      Object.values(settings)
        .filter(({ secret }) => secret)
        .map(({ env: name }) => [name, fitting[name] ?? long]),
    )
    const shown = describeConfig(
      readConfig({ ...env, ...alertAddresses, ...oidc, TRUST_WALLET_ADDRESS: `0x${'1'.repeat(40)}` }),
    )
    expect(JSON.stringify(shown)).not.toContain(long)
    for (const name of Object.keys(env)) {
      expect(shown.find((setting) => setting.name === name)).toMatchObject({ value: 'set', source: 'environment' })
    }
  })
})

describe('alert channels from the environment', () => {
  it('are read from their variables', () => {
    const config = readConfig({
      ...alertSecrets('x'),
      ...alertAddresses,
      ALERT_WEBHOOK_SECRET: `${webhookSecret('n')}  ${webhookSecret('o')}`,
      ALERT_EMAIL_TO: 'a@example.com , b@example.com',
      WARDLINE_ALERT_ALLOW_CIDRS: '10.1.0.0/16, fd00::/8',
    })
    expect(config).toMatchObject({
      alertWebhookUrl: 'https://hooks.example.com/x',
      alertWebhookSecrets: [webhookSecret('n'), webhookSecret('o')],
      telegramChatId: '-100123',
      alertEmailTo: ['a@example.com', 'b@example.com'],
      alertAllowCidrs: ['10.1.0.0/16', 'fd00::/8'],
    })
  })

  it('are read from files', () => {
    const secretFile = fileWith('https://hooks.slack.com/services/x\n')
    expect(readConfig({ SLACK_WEBHOOK_URL_FILE: secretFile }).slackWebhookUrl).toBe(
      'https://hooks.slack.com/services/x',
    )
  })

  it.each([
    ['ALERT_WEBHOOK_URL', 'ftp://hooks.example.com'],
    ['SLACK_WEBHOOK_URL', 'https://'],
    ['SLACK_WEBHOOK_URL', 'https://hooks.slack.com/a b'],
    ['DISCORD_WEBHOOK_URL', 'https://discord.com/\nx'],
    ['TEAMS_WEBHOOK_URL', `https://example.com/${'x'.repeat(2048)}`],
    ['TELEGRAM_BOT_TOKEN', '123456'],
    ['TELEGRAM_CHAT_ID', 'me'],
    ['PAGERDUTY_ROUTING_KEY', 'x'.repeat(31)],
    ['SMTP_URL', 'https://mail.example.com'],
    ['SMTP_URL', 'smtp://user:100%@mail.example.com'],
    ['ALERT_EMAIL_FROM', 'Wardline <a@example.com>'],
    ['ALERT_EMAIL_TO', 'a@example.com,'],
    ['ALERT_EMAIL_TO', 'a@example.com\r\nBcc: e@example.com'],
    ['ALERT_EMAIL_TO', Array.from({ length: 51 }, (_, index) => `a${index}@example.com`).join()],
    ['NTFY_URL', 'ntfy.sh/topic'],
    ['NTFY_URL', 'https://ntfy.sh'],
    ['NTFY_URL', 'https://user:password@ntfy.example.com/topic'],
    ['WARDLINE_ALERT_ALLOW_CIDRS', 'internal'],
  ])('are refused by the same rules as in the API: %s=%s', (name, value) => {
    const faults = faultsOf({ [name]: value })
    expect(faults).toEqual([expect.stringMatching(new RegExp(`^${name} must .*\\.$`))])
  })

  it.each([
    'whsec_',
    webhookSecret('x').slice('whsec_'.length),
    `whsec_${Buffer.alloc(23).toString('base64')}`,
    `whsec_${Buffer.alloc(65).toString('base64')}`,
    `whsec_${'A'.repeat(33)}`,
    `whsec_${'-'.repeat(32)}`,
    `${webhookSecret('x')},${webhookSecret('x')}`,
    [1, 2, 3].map((digit) => webhookSecret(String(digit))).join(' '),
  ])('refuse the signing secret %s', (secret) => {
    const faults = faultsOf({ ALERT_WEBHOOK_URL: 'https://hooks.example.com', ALERT_WEBHOOK_SECRET: secret })
    expect(faults).toEqual([expect.stringMatching(/^ALERT_WEBHOOK_SECRET must .*\.$/)])
  })

  it.each([24, 25, 26, 32, 63, 64])('accept a signing secret of %i bytes', (length) => {
    const secret = `whsec_${Buffer.alloc(length, 'k').toString('base64')}`
    for (const text of [secret, secret.replace(/=+$/, '')]) {
      const env = { ALERT_WEBHOOK_URL: 'https://hooks.example.com', ALERT_WEBHOOK_SECRET: text }
      expect(readConfig(env).alertWebhookSecrets).toEqual([text])
    }
  })

  // An incomplete channel would silently send nothing.
  it('are refused if a required part is missing', () => {
    const telegram = 'TELEGRAM_BOT_TOKEN and TELEGRAM_CHAT_ID belong together: set all of them, or none.'
    const mail = 'SMTP_URL, ALERT_EMAIL_FROM and ALERT_EMAIL_TO belong together: set all of them, or none.'
    expect(faultsOf({ TELEGRAM_BOT_TOKEN: '123456:abcdefghij' })).toEqual([telegram])
    expect(faultsOf({ TELEGRAM_CHAT_ID: '1' })).toEqual([telegram])
    expect(faultsOf({ SMTP_URL: 'smtp://mail.example.com' })).toEqual([mail])
    expect(faultsOf({ SMTP_URL: 'smtp://mail.example.com', ALERT_EMAIL_TO: 'a@example.com' })).toEqual([mail])
    expect(faultsOf({ ALERT_EMAIL_FROM: 'a@example.com', TELEGRAM_CHAT_ID: '1' })).toEqual([telegram, mail])
    expect(faultsOf({ ALERT_WEBHOOK_SECRET: webhookSecret('x') })).toEqual([
      'ALERT_WEBHOOK_SECRET needs ALERT_WEBHOOK_URL: set both, or neither.',
    ])
  })
})

describe('describeConfig', () => {
  it('lists every setting with its effective value and source', () => {
    const file = fileWith('k'.repeat(40))
    const shown = describeConfig(readConfig({ PORT: '1234', WARDLINE_SECRET_FILE: file }))
    expect(shown.map(({ name }) => name)).toEqual(Object.values(settings).map(({ env }) => env))
    const of = (name: string) => shown.find((setting) => setting.name === name)
    expect(of('PORT')).toMatchObject({ value: '1234', is_secret: false, source: 'environment' })
    expect(of('WARDLINE_API_KEY')).toMatchObject({ value: null, is_secret: true, source: 'default' })
    expect(of('WARDLINE_SECRET')).toMatchObject({ value: 'set', is_secret: true, source: 'file' })
    expect(of('TRUST_PUBLIC_ENABLED')).toMatchObject({ value: 'true', source: 'default' })
  })

  // The last error of a job is shown to users, and errors of drivers and receivers quote URLs.
  it('redacts secrets in errors', () => {
    const password = 'canary 0123456789'
    const config = readConfig({
      DATABASE_URL: `postgres://user:${encodeURIComponent(password)}@db.example/wardline`,
      NTFY_URL: 'https://ntfy.example.com/canary',
    })
    expect(withoutConfiguredSecrets(config, `connect to ${config.databaseUrl} failed`)).toBe(
      'connect to (secret) failed',
    )
    expect(withoutConfiguredSecrets(config, 'no answer of https://ntfy.example.com/canary')).toBe(
      'no answer of (secret)',
    )
    expect(withoutConfiguredSecrets(config, `password ${password} was refused`)).toBe('password (secret) was refused')
  })
})
