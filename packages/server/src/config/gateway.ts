import { readFileSync } from 'node:fs'
import { env as environment } from 'node:process'
import { type Static, Type } from 'typebox'
import { parse } from 'yaml'
import { readPrivateFile } from '../private-files.ts'
import { faultFinder } from '../validation.ts'
import { type Config, ConfigError } from './config.ts'
import { type Budget, BudgetEntries, budgetsOf, PriceEntries, type Prices } from './gateway-budgets.ts'

const gatewayKinds = ['openai', 'anthropic', 'gemini'] as const
export type GatewayKind = (typeof gatewayKinds)[number]

/** A provider of models, and the key that the gateway uses there. */
export interface Upstream {
  name: string
  kind: GatewayKind
  /** Without a trailing slash. */
  url: URL
  key: string
}

const name = 'WARDLINE_GATEWAY_FILE'
/** A file has one entry for each provider. */
const maxUpstreams = 50

const FileSettings = Type.Object(
  {
    upstreams: Type.Record(
      Type.String({ pattern: '^[a-z0-9][a-z0-9_-]{0,39}$' }),
      Type.Object(
        {
          kind: Type.Unsafe<GatewayKind>({ enum: [...gatewayKinds] }),
          url: Type.String({ maxLength: 2_000 }),
          key_file: Type.Optional(Type.String({ minLength: 1 })),
          key_env: Type.Optional(Type.String({ pattern: '^[A-Za-z_][A-Za-z0-9_]*$' })),
        },
        { additionalProperties: false },
      ),
      { minProperties: 1, maxProperties: maxUpstreams, additionalProperties: false },
    ),
    budgets: Type.Optional(BudgetEntries),
    prices: Type.Optional(PriceEntries),
  },
  { additionalProperties: false },
)

const schemaFault = faultFinder(FileSettings, 'it')

type FileEntries = Static<typeof FileSettings>
type Entry = FileEntries['upstreams'][string]

function urlOf(given: string): URL {
  const url = URL.canParse(given) ? new URL(given) : undefined
  if (!url || !['http:', 'https:'].includes(url.protocol)) throw new Error('url must be an http or https URL')
  if (url.username || url.password || url.search || url.hash) {
    throw new Error('url must have no user, password, query or fragment')
  }
  url.pathname = url.pathname.replace(/\/+$/, '')
  return url
}

/** The key goes into a header, so that only visible characters are valid. No message contains it. */
function keyOf({ key_file: file, key_env: variable }: Entry, env: NodeJS.ProcessEnv): string {
  if ((file === undefined) === (variable === undefined)) throw new Error('key_file or key_env must be given, not both')
  const given = file === undefined ? env[variable!] : readPrivateFile(file, name)
  const key = given?.trim()
  if (!key) throw new Error(file === undefined ? `the variable ${variable} is not set` : `${file} is empty`)
  if (!/^[\x21-\x7e]+$/.test(key)) throw new Error('the key must have visible ASCII characters only')
  return key
}

/** Reads the upstreams. Throws ConfigError with all faults, each naming the upstream and the field. */
export function readUpstreams(
  { gatewayFile: file }: Pick<Config, 'gatewayFile'>,
  env: NodeJS.ProcessEnv = environment,
): readonly Upstream[] {
  if (file === undefined) {
    throw new ConfigError(['WARDLINE_GATEWAY_PORT needs WARDLINE_GATEWAY_FILE, the file of the upstreams.'])
  }
  const { upstreams: read } = readEntries(file)
  const faults: string[] = []
  const upstreams = Object.entries(read).flatMap(([upstream, entry]): Upstream[] => {
    try {
      return [{ name: upstream, kind: entry.kind, url: urlOf(entry.url), key: keyOf(entry, env) }]
    } catch (fault) {
      if (fault instanceof ConfigError) faults.push(...fault.faults)
      else faults.push(`${name}: ${upstream}: ${(fault as Error).message}.`)
      return []
    }
  })
  if (faults.length > 0) throw new ConfigError(faults)
  return upstreams
}

/** Reads the budgets and prices; none without a file. Throws ConfigError with all faults. */
export function readBudgets({ gatewayFile: file }: Pick<Config, 'gatewayFile'>): {
  budgets: readonly Budget[]
  prices: Prices
} {
  if (file === undefined) return { budgets: [], prices: [] }
  const { faults, ...read } = budgetsOf(readEntries(file))
  if (faults.length > 0) throw new ConfigError(faults.map((fault) => `${name}: ${fault}`))
  return read
}

function readEntries(file: string): FileEntries {
  let given: unknown
  try {
    given = parse(readFileSync(file, 'utf8'), { maxAliasCount: 0 })
  } catch (fault) {
    const { code, message } = fault as NodeJS.ErrnoException
    throw new ConfigError([`${name}: ${file} ${code === 'ENOENT' ? 'does not exist' : `cannot be read: ${message}`}.`])
  }
  const fault = schemaFault(given)
  if (fault !== undefined) throw new ConfigError([`${name}: ${fault}`])
  return given as FileEntries
}
