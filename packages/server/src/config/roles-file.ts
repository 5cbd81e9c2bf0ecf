import { readFileSync, statSync } from 'node:fs'
import { peopleLimits, RoleMapping } from '@wardline/contract'
import { parse } from 'yaml'
import { faultFinder } from '../validation.ts'
import { ConfigError } from './config.ts'

const setting = 'WARDLINE_OIDC_ROLES_FILE'
/** Bytes of the file: `peopleLimits.mappings` rows of full length. */
const maxBytes = 512 * 1024
const schemaFault = faultFinder(RoleMapping, 'it')

/** Describes what is wrong with a row; undefined if nothing is. */
export function mappingFault(mapping: unknown): string | undefined {
  const fault = schemaFault(mapping)
  if (fault !== undefined) return fault.replace(/\.$/, '')
  const { group, email, role, tags } = mapping as RoleMapping
  if ((group === undefined) === (email === undefined)) return 'it must have either group or email'
  return role === 'admin' && tags ? 'role admin has no tags, because it makes keys for all agents' : undefined
}

/** Parses the file's text. Throws ConfigError. */
export function parseMappings(text: string, file: string): RoleMapping[] {
  let rows: unknown
  try {
    rows = parse(text, { maxAliasCount: 0, schema: 'core', logLevel: 'error' })
  } catch (fault) {
    throw new ConfigError([`${setting}: ${file} is not YAML: ${(fault as Error).message.split('\n')[0]}.`])
  }
  if (!Array.isArray(rows)) {
    throw new ConfigError([`${setting}: ${file} must be a list such as "- { group: platform, role: operator }".`])
  }
  if (rows.length > peopleLimits.mappings) {
    throw new ConfigError([`${setting}: ${file} must have at most ${peopleLimits.mappings} rows.`])
  }
  const faults = rows.flatMap((row, index) => {
    const fault = mappingFault(row)
    return fault === undefined ? [] : [`${setting}: row ${index + 1}: ${fault}.`]
  })
  if (faults.length > 0) throw new ConfigError(faults)
  return rows
}

/** Reads and parses the file. Throws ConfigError. */
export function readMappingFile(file: string): RoleMapping[] {
  let text: string
  try {
    if (statSync(file).size > maxBytes) throw new ConfigError([`${setting}: ${file} is larger than ${maxBytes} bytes.`])
    text = readFileSync(file, 'utf8')
  } catch (fault) {
    if (fault instanceof ConfigError) throw fault
    throw new ConfigError([`${setting}: ${file} cannot be read: ${(fault as NodeJS.ErrnoException).code}.`])
  }
  return parseMappings(text, file)
}
