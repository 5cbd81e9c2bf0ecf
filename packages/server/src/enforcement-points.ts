import { type EnforcementAction, EnforcementPointSettings, limits } from '@wardline/contract'
import { matchesPattern } from '@wardline/text'
import { type Config, ConfigError } from './config.ts'
import { readPrivateFile } from './private-files.ts'
import { urlFault, webhookSecretFault } from './setting-faults.ts'
import { faultFinder } from './validation.ts'

const setting = 'WARDLINE_ENFORCEMENT_FILE'

/** An enforcement point as the operator configured it. */
export interface Point {
  name: string
  url: string
  /** Host and port: all of the URL that is ever shown. */
  host: string
  secret: string
  /** Undefined = all instances. */
  tags: readonly string[] | undefined
  instances: readonly string[] | undefined
  actions: readonly EnforcementAction[]
}

const schemaFault = faultFinder(EnforcementPointSettings)

/** What is wrong with an entry, naming the field; without anything of its values. */
function faultOf(entry: unknown): string | undefined {
  const fault = schemaFault(entry)
  if (fault !== undefined) return fault.replace('The body', 'it').replace(/\.$/, '')
  const { url, secret, tags, instances } = entry as EnforcementPointSettings
  const ofUrl = urlFault(url)
  if (ofUrl !== undefined) return `url ${ofUrl}`
  const ofSecret = webhookSecretFault(secret)
  if (ofSecret !== undefined) return `secret ${ofSecret}`
  return tags && instances ? 'tags and instances exclude each other' : undefined
}

/** A name that identifies the entry in a message; only what may stand in one. */
const titleOf = (entry: unknown, index: number): string => {
  const name = (entry as { name?: unknown } | null)?.name
  return `entry ${index + 1}${typeof name === 'string' && /^[a-z0-9_.-]{1,40}$/.test(name) ? ` (${name})` : ''}`
}

/** Reads the text of the file. Throws ConfigError with every fault, each of which names entry and field. */
export function parsePoints(text: string, file: string): Point[] {
  let entries: unknown
  try {
    entries = JSON.parse(text)
  } catch {
    // The cause would quote the text, which holds secrets.
    throw new ConfigError([`${setting}: ${file} is not JSON.`])
  }
  if (!Array.isArray(entries)) throw new ConfigError([`${setting}: ${file} must hold a JSON list of points.`])
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

/** The operator's enforcement points; none without a file. Throws ConfigError. */
export const readPoints = ({ enforcementFile: file }: Pick<Config, 'enforcementFile'>): readonly Point[] =>
  file === undefined ? [] : parsePoints(readPrivateFile(file, setting), file)

/** Of these instances those that the ids of the point allow; its tags are compared by the database. */
export const allowedById = <Named extends { id: string }>({ instances }: Point, named: readonly Named[]) =>
  instances ? named.filter(({ id }) => instances.some((pattern) => matchesPattern(pattern, id))) : named
