import { type EnforcementAction, EnforcementPointSettings, limits } from '@wardline/contract'
import { matchesPattern } from '@wardline/text'
import { readPrivateFile } from '../private-files.ts'
import { faultFinder } from '../validation.ts'
import { type Config, ConfigError } from './config.ts'
import { urlFault, webhookSecretFault } from './setting-faults.ts'

const setting = 'WARDLINE_ENFORCEMENT_FILE'

/** An enforcement point from the operator's file. */
export interface Point {
  name: string
  url: string
  /** Host and port: the only part of the URL that is ever shown. */
  host: string
  secret: string
  /** Undefined = all instances. */
  tags: readonly string[] | undefined
  instances: readonly string[] | undefined
  actions: readonly EnforcementAction[]
}

const schemaFault = faultFinder(EnforcementPointSettings, 'it')

/** Describes why an entry is invalid, with the field's name but without its value. */
function faultOf(entry: unknown): string | undefined {
  const fault = schemaFault(entry)
  if (fault !== undefined) return fault.replace(/\.$/, '')
  const { url, secret, tags, instances } = entry as EnforcementPointSettings
  const ofUrl = urlFault(url)
  if (ofUrl !== undefined) return `url ${ofUrl}`
  const ofSecret = webhookSecretFault(secret)
  if (ofSecret !== undefined) return `secret ${ofSecret}`
  return tags && instances ? 'tags and instances exclude each other' : undefined
}

/** Identifies an entry in messages: its position, and its name if that is safe to print. */
const titleOf = (entry: unknown, index: number): string => {
  const name = (entry as { name?: unknown } | null)?.name
  return `entry ${index + 1}${typeof name === 'string' && /^[a-z0-9_.-]{1,40}$/.test(name) ? ` (${name})` : ''}`
}

/** Parses the file's text. Throws ConfigError with all faults, each naming the entry and the field. */
export function parsePoints(text: string, file: string): Point[] {
  let entries: unknown
  try {
    entries = JSON.parse(text)
  } catch {
    // No cause, because it would quote the text, which contains secrets.
    throw new ConfigError([`${setting}: ${file} is not JSON.`])
  }
  if (!Array.isArray(entries)) throw new ConfigError([`${setting}: ${file} must contain a JSON list of points.`])
  if (entries.length > limits.enforcementPoints) {
    throw new ConfigError([`${setting}: ${file} must have at most ${limits.enforcementPoints} entries.`])
  }
  const faults: string[] = []
  const points: Point[] = []
  for (const [index, entry] of entries.entries()) {
    const fault = faultOf(entry)
    const isKnown = fault === undefined && points.some(({ name }) => name === entry.name)
    if (fault !== undefined || isKnown) {
      faults.push(`${setting}: ${titleOf(entry, index)}: ${fault ?? 'name is used by another entry'}.`)
      continue
    }
    const { name, url, secret, tags, instances, actions = ['suspend', 'resume'] } = entry as EnforcementPointSettings
    points.push({ name, url, host: new URL(url).host, secret, tags, instances, actions: [...new Set(actions)] })
  }
  if (faults.length > 0) throw new ConfigError(faults)
  return points
}

/** Reads the operator's enforcement points; empty without a file. Throws ConfigError. */
export const readPoints = ({ enforcementFile: file }: Pick<Config, 'enforcementFile'>): readonly Point[] =>
  file === undefined ? [] : parsePoints(readPrivateFile(file, setting), file)

/** Returns the instances whose id matches the point's `instances`. Its tags are matched in the database. */
export const allowedById = <Named extends { id: string }>({ instances }: Point, named: readonly Named[]) =>
  instances ? named.filter(({ id }) => instances.some((pattern) => matchesPattern(pattern, id))) : named
