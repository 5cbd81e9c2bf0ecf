import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { type Configured, dataFolder, erc8004Statuses, erc8126Statuses } from '@wardline/contract'
import { accessSettings, reachedBy } from './access.ts'
import { alertSettings, incompleteChannels } from './alerts.ts'
import { autoSuspensionSettings } from './auto-suspension.ts'
import { chainSettings, incompleteChain } from './chain.ts'
import { hostSettings } from './hosts.ts'
import { limitSettings } from './limits.ts'
import { logSettings } from './log.ts'
import { incompleteOidc, oidcSettings } from './oidc.ts'
import { quotaSettings } from './quotas.ts'
import { backplaneUrl } from './redis-url.ts'
import { serverUrls } from './server-urls.ts'
import { telemetrySettings } from './telemetry.ts'
import { unknownNames } from './unknown-names.ts'
import {
  address,
  channel,
  cidrs,
  flag,
  integer,
  longSecret,
  oneOf,
  refuse,
  type Setting,
  setting,
  text,
} from './values.ts'

/** The configuration is invalid. `faults` contains one sentence per fault. */
export class ConfigError extends Error {
  override name = 'ConfigError'
  readonly faults: string[]

  constructor(faults: string[]) {
    super(faults.join('\n'))
    this.faults = faults
  }
}

const isPostgresUrl = (url: string): boolean => /^postgres(ql)?:\/\//.test(url)

function databaseUrl(value: string): string {
  if (value.startsWith('sqlite:') && value.length > 'sqlite:'.length) return value
  serverUrls(value)
  return value
}

/** All settings, in the order of the reference documentation. */
export const settings = {
  host: setting({ env: 'HOST', unset: '127.0.0.1', meaning: 'Address to listen on', parse: text }),
  port: setting({
    env: 'PORT',
    unset: '4747',
    meaning: 'Port to listen on; 0 means any free port',
    parse: integer(0, 65_535),
  }),
  dataDir: setting({
    env: 'WARDLINE_DATA_DIR',
    unset: dataFolder.path,
    meaning: 'Folder of the SQLite file and the generated secrets',
    parse: text,
  }),
  databaseUrl: setting({
    env: 'DATABASE_URL',
    unset: undefined,
    meaning:
      'Database: `sqlite:<file>`, or `postgres://<user>:<password>@<host>/<database>`, with `<host>,<host>` for a primary and its standbys; default: SQLite, `wardline.db` in the data folder',
    parse: databaseUrl,
    secret: true,
  }),
  backplaneUrl: setting({
    env: 'BACKPLANE_URL',
    unset: undefined,
    meaning:
      'Redis or Valkey that connects several processes: `redis://<user>:<password>@<host>:<port>`, `rediss://…` for TLS; with `<host>:<port>,<host>:<port>` the nodes of a cluster, and as `redis+sentinel://<user>:<password>@<host>:<port>,<host>:<port>/<master>` the master that sentinels name; default: in-process',
    parse: backplaneUrl,
    secret: true,
  }),
  eventsChannel: setting({
    env: 'EVENTS_CHANNEL',
    unset: 'wardline:events',
    meaning: 'Channel of the backplane for events',
    parse: channel,
  }),
  controlChannel: setting({
    env: 'CONTROL_CHANNEL',
    unset: 'wardline:control',
    meaning: 'Channel of the backplane for kills and resumes',
    parse: channel,
  }),
  apiKey: setting({
    env: 'WARDLINE_API_KEY',
    unset: undefined,
    meaning:
      'A full-access key, at least 32 characters. Default: the first startup creates an admin key, stores it in the file `admin-key` of the data folder and names the file',
    parse: longSecret,
    secret: true,
  }),
  secret: setting({
    env: 'WARDLINE_SECRET',
    unset: undefined,
    meaning:
      'Master secret, at least 32 characters, from which the keys for decoys and control messages are derived. Default: generated into the data folder',
    parse: longSecret,
    secret: true,
  }),
  ...accessSettings,
  drillHours: setting({
    env: 'WARDLINE_DRILLS',
    unset: '24',
    meaning:
      'Hours in which each agent is asked once, by a harmless message, whether a suspension would reach it; `off`: only when an operator starts a drill. See [Drills](../guide/containment.md#drills)',
    parse: (value) => (value === 'off' ? null : integer(1, 168)(value)),
  }),
  drillAnswerSeconds: setting({
    env: 'WARDLINE_DRILL_ANSWER_SECONDS',
    unset: '30',
    meaning: 'Seconds that an agent has to answer a drill; after that it counts as missing',
    parse: integer(1, 300),
  }),
  streamKeepAliveSeconds: setting({
    env: 'WARDLINE_STREAM_KEEPALIVE_SECONDS',
    unset: '30',
    meaning:
      'Seconds between the keep-alives of open streams; less where a proxy closes connections that are idle for so long. Clients reconnect after 75 seconds without one',
    parse: integer(1, 60),
  }),
  retentionDays: setting({
    env: 'WARDLINE_RETENTION_DAYS',
    unset: '90',
    meaning: 'Days for which events are kept; counts are kept longer',
    parse: integer(1, 3650),
  }),
  twoPersonResume: setting({
    env: 'WARDLINE_TWO_PERSON_RESUME',
    unset: 'false',
    meaning: 'Whether each resume needs a second operator, who confirms it with another key within 15 minutes',
    parse: flag,
  }),
  enforcementFile: setting({
    env: 'WARDLINE_ENFORCEMENT_FILE',
    unset: undefined,
    meaning:
      'File (mode 0600) of the enforcement points: levers of the operator that are called when an agent is suspended or resumed. See [Enforcement points](../guide/containment.md#enforcement-points). Default: none',
    parse: text,
  }),
  rulesDir: setting({
    env: 'WARDLINE_RULES_DIR',
    unset: undefined,
    meaning:
      'Folder of [rule files](../guide/rules.md#rules-in-files) (`.yml`, `.yaml`, `.json`; one rule a file), read at startup and when they change. Default: none',
    parse: text,
  }),
  policyDir: setting({
    env: 'WARDLINE_POLICY_DIR',
    unset: undefined,
    meaning:
      'Folder of [policy files](../guide/policies.md#policies-in-files) (`.yml`, `.yaml`, `.json`; one policy a file; `*.labels.yaml` are labels), read at startup and when they change. Default: none',
    parse: text,
  }),
  ...telemetrySettings,
  ...quotaSettings,
  ...autoSuspensionSettings,
  ...limitSettings,
  trustedProxies: setting({
    env: 'WARDLINE_TRUSTED_PROXIES',
    unset: undefined,
    meaning: 'CIDR ranges of proxies whose X-Forwarded-For is trusted, comma-separated',
    parse: cidrs,
  }),
  ...hostSettings,
  ...oidcSettings,
  maxConnectionsPerAddress: setting({
    env: 'WARDLINE_MAX_CONNECTIONS_PER_ADDRESS',
    unset: '512',
    meaning:
      'Maximum connections of one address without a valid key; an IPv6 /64 counts as one address, loopback and trusted proxies are exempt',
    parse: integer(1, 20_000),
  }),
  ...logSettings,
  trustEnabled: setting({
    env: 'TRUST_PUBLIC_ENABLED',
    unset: 'true',
    meaning: '`false` disables the public trust page, its badges and the public summary',
    parse: flag,
  }),
  trustSnapshotSeconds: setting({
    env: 'TRUST_SNAPSHOT_SECONDS',
    unset: '5',
    meaning:
      'Maximum age of the public snapshot in seconds; at 60, an attacker who probes you learns less from the public score',
    parse: integer(1, 3600),
  }),
  trustSlug: setting({ env: 'TRUST_SLUG', unset: 'wardline', meaning: 'Public slug of the fleet', parse: text }),
  trustName: setting({ env: 'TRUST_NAME', unset: 'Wardline', meaning: 'Public name of the fleet', parse: text }),
  trustErc8004Status: setting({
    env: 'TRUST_ERC8004_STATUS',
    unset: 'registering',
    meaning: 'Label of the ERC-8004 registration; a stored agent id makes it `live`',
    parse: oneOf(erc8004Statuses),
  }),
  trustErc8126Status: setting({
    env: 'TRUST_ERC8126_STATUS',
    unset: 'enterprise',
    meaning: 'Label of the ERC-8126 verification',
    parse: oneOf(erc8126Statuses),
  }),
  trustChainId: setting({
    env: 'TRUST_CHAIN_ID',
    unset: '84532',
    meaning: 'EIP-155 chain of the identity registry',
    parse: integer(1, 4_294_967_295),
  }),
  trustRegistry: setting({
    env: 'TRUST_ERC8004_REGISTRY',
    unset: undefined,
    meaning: 'Address of the ERC-8004 identity registry; default: the known registry of the chain',
    parse: address,
  }),
  trustAgentId: setting({
    env: 'TRUST_AGENT_ID',
    unset: undefined,
    meaning: 'ERC-8004 agent id, a decimal number; 0 is a valid one',
    // An id is 256 bits. `007` is 7, as files and registries name it.
    parse: (value) =>
      /^\d{1,78}$/.test(value) && BigInt(value) < 2n ** 256n
        ? BigInt(value).toString()
        : refuse('must be a decimal number of 256 bits'),
  }),
  trustWallet: setting({
    env: 'TRUST_WALLET_ADDRESS',
    unset: undefined,
    meaning: 'Public wallet address of the fleet',
    parse: address,
  }),
  ...chainSettings,
  ...alertSettings,
}

type Settings = typeof settings
type Optional =
  | 'databaseUrl'
  | 'backplaneUrl'
  | 'apiKey'
  | 'secret'
  | 'enforcementFile'
  | 'rulesDir'
  | 'policyDir'
  | 'traceUrl'
  | 'maxDbMb'
  | 'trustedProxies'
  | 'trustRegistry'
  | 'trustAgentId'
  | 'trustWallet'
  | 'trustRpcUrl'
  | 'trustWalletNonce'
  | 'trustWalletKeyFile'
  | 'trustWalletPassphraseFile'
  | 'trustSignerUrl'
  | 'trustEas'
  | 'trustSchemaRegistry'
  | 'trustBadAddressesFile'
  | 'trustValidationRegistry'
  | 'trustReputationRegistry'
  | 'trustOtherAttesters'
  | Exclude<keyof typeof oidcSettings, 'oidcScopes' | 'oidcGroupsClaim'>
  | keyof typeof hostSettings
  | keyof typeof alertSettings
export type Config = {
  readonly [Name in keyof Settings]: ReturnType<Settings[Name]['parse']> | (Name extends Optional ? undefined : never)
} & {
  /** Why the defaults of `streamAuth` and `metricsAuth` are what they are. */
  readonly accessReason: string
  /** Source of each setting: environment, file or default. */
  readonly sources: Readonly<Record<keyof Settings, Configured['source']>>
  /** Paths of the settings that were read from files. */
  readonly files: Readonly<Partial<Record<keyof Settings, string>>>
}

interface Given {
  text: string | undefined
  source: Configured['source']
  path?: string
}

function given(entry: Setting<unknown>, env: NodeJS.ProcessEnv): Given {
  const direct = env[entry.env]
  const file = entry.secret ? env[`${entry.env}_FILE`] : undefined
  if (direct && file) throw new Error(`and ${entry.env}_FILE exclude each other`)
  if (!file) return direct ? { text: direct, source: 'environment' } : { text: entry.unset, source: 'default' }
  try {
    return { text: readFileSync(file, 'utf8').trim(), source: 'file', path: file }
  } catch (cause) {
    throw new Error(`_FILE cannot be read: ${(cause as NodeJS.ErrnoException).code}`, { cause })
  }
}

/** Returns the conflicts between settings that are valid on their own. */
function contradictions(config: Config): string[] {
  const { backplaneUrl, databaseUrl, eventsChannel, controlChannel } = config
  const faults = [...incompleteChannels(config), ...incompleteChain(config), ...incompleteOidc(config)]
  if (backplaneUrl && !(databaseUrl && isPostgresUrl(databaseUrl))) {
    faults.push(
      'BACKPLANE_URL connects several processes, which cannot share a SQLite file: set DATABASE_URL to a PostgreSQL database, or unset BACKPLANE_URL.',
    )
  }
  if (eventsChannel === controlChannel) faults.push('EVENTS_CHANNEL and CONTROL_CHANNEL must differ: rename one.')
  return faults
}

/** Reads the configuration from the environment. Empty values count as unset. Throws ConfigError with all faults. */
export function readConfig(env: NodeJS.ProcessEnv = process.env): Config {
  const known = Object.values(settings).flatMap(({ env: name, secret }) => (secret ? [name, `${name}_FILE`] : [name]))
  const faults = unknownNames(env, known)
  const values: Record<string, unknown> = {}
  const sources: Record<string, Configured['source']> = {}
  const files: Record<string, string> = {}
  for (const [name, entry] of Object.entries(settings) as [string, Setting<unknown>][]) {
    try {
      const { text, source, path } = given(entry, env)
      values[name] = text === undefined ? undefined : entry.parse(text)
      sources[name] = source
      if (path !== undefined) files[name] = path
    } catch (fault) {
      faults.push(`${entry.env} ${(fault as Error).message}.`.replace(' _FILE', '_FILE'))
    }
  }
  if (faults.length > 0) throw new ConfigError(faults)
  const reached = reachedBy(values as unknown as Config)
  const config = {
    ...values,
    streamAuth: values.streamAuth ?? (reached ? 'session' : 'none'),
    metricsAuth: values.metricsAuth ?? (reached ? 'key' : 'none'),
    accessReason: reached ?? 'only this machine reaches the service',
    sources,
    files,
  } as Config
  const contradictory = contradictions(config)
  if (contradictory.length > 0) throw new ConfigError(contradictory)
  return config
}

/**
 * Returns a URL as its file has it now, such as with another password; as it was at the start if the file is invalid, or no
 * file: a pipe, as of `<(command)` of a shell, can be read once, and opening it again would wait forever.
 */
export function currentUrl(config: Config, name: 'databaseUrl' | 'backplaneUrl'): string | undefined {
  const path = config.files[name]
  if (path === undefined) return config[name]
  try {
    if (!statSync(path).isFile()) return config[name]
    return settings[name].parse(readFileSync(path, 'utf8').trim())
  } catch {
    return config[name]
  }
}

/** Returns the path of the SQLite file; undefined with PostgreSQL. */
export function databaseFile({ databaseUrl, dataDir }: Config): string | undefined {
  if (databaseUrl === undefined) return join(dataDir, 'wardline.db')
  return isPostgresUrl(databaseUrl) ? undefined : databaseUrl.slice('sqlite:'.length)
}

const settingList = Object.entries(settings) as [keyof Settings, Setting<unknown>][]

/** Returns the effective configuration. Of a secret it shows only whether it is set. */
export const describeConfig = (config: Config): Configured[] =>
  settingList.map(([name, { env, secret = false, meaning }]) => {
    const value = config[name]
    const shown = value === undefined ? null : secret ? 'set' : value === null ? 'none' : String(value)
    const source = config.sources[name]
    const dependsOnOthers = source === 'default' && (name === 'streamAuth' || name === 'metricsAuth')
    const reason = dependsOnOthers ? { reason: config.accessReason } : {}
    return { name: env, value: shown, is_secret: secret, source, ...reason, meaning }
  })

/** Redacts the values of secret settings, and the passwords in URLs among them, from a text such as an error. */
export function withoutConfiguredSecrets(config: Config, text: string): string {
  const configured = settingList.flatMap(([name, { secret }]) => (secret ? [config[name] ?? []].flat() : []))
  const current = (['databaseUrl', 'backplaneUrl'] as const).flatMap((name) => currentUrl(config, name) ?? [])
  const secrets = [...configured, ...current].map(String)
  // Not by URL, which refuses those with several hosts.
  const passwords = secrets.flatMap((value) =>
    [/^[a-z+]+:\/\/[^:@/?#]*:([^@/?#]+)@/, /[?&]sentinel_password=([^&#]+)/].flatMap(
      (form) => form.exec(value)?.[1] ?? [],
    ),
  )
  const decoded = passwords.flatMap((password) => [password, decodeURIComponent(password)])
  return [...secrets, ...decoded]
    .filter((value) => value !== '')
    .sort((one, other) => other.length - one.length)
    .reduce((left, value) => left.replaceAll(value, '(secret)'), text)
}
