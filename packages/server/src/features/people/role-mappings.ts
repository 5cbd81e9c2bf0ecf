import { statSync } from 'node:fs'
import type { RoleMapping, RoleMappings } from '@wardline/contract'
import { mappingFault } from '../../config/roles-file.ts'
import type { Deps } from '../../deps.ts'
import { AppError, DatabaseError } from '../../errors.ts'
import { type Actor, auditStatements } from '../audit/audit.ts'
import type { ProtectionAlerts } from '../audit/protection.ts'
import { mappingStatements, readMappings, readMappingsVersion } from './queries.ts'

interface RoleTableParts {
  protectionAlerts: ProtectionAlerts
  /** Reads WARDLINE_OIDC_ROLES_FILE. Throws ConfigError. */
  readFile(file: string): RoleMapping[]
}

/** Which groups have which role: the file if one is configured, else what is stored. */
export class RoleTable {
  readonly #deps: Deps
  readonly #protection: ProtectionAlerts
  readonly #readFile: RoleTableParts['readFile']
  #ofFile: { mappings: RoleMapping[]; changedAt: number } | undefined

  /** Throws ConfigError if the file is invalid. */
  constructor(deps: Deps, { protectionAlerts, readFile }: RoleTableParts) {
    this.#deps = deps
    this.#protection = protectionAlerts
    this.#readFile = readFile
    const file = deps.config.oidcRolesFile
    if (file !== undefined) this.#ofFile = { mappings: this.#readFile(file), changedAt: statSync(file).mtimeMs }
  }

  async read(): Promise<RoleMappings> {
    const { config, database } = this.#deps
    const file = config.oidcRolesFile
    if (file !== undefined && this.#ofFile) {
      return { owner: 'file', mappings: this.#reread(file, this.#ofFile), version: 0 }
    }
    // First, so that a change meanwhile is noticed when this one is replaced.
    const version = await readMappingsVersion(database.db)
    return { owner: 'service', mappings: await readMappings(database.db), version }
  }

  /** A file that became invalid changes nothing: it must lock nobody out. */
  #reread(file: string, known: { mappings: RoleMapping[]; changedAt: number }): RoleMapping[] {
    try {
      const changedAt = statSync(file).mtimeMs
      if (changedAt === known.changedAt) return known.mappings
      known.changedAt = changedAt
      known.mappings = this.#readFile(file)
    } catch (fault) {
      this.#deps.log.error({ err: fault }, 'the table of roles cannot be read; the earlier one applies')
    }
    return known.mappings
  }

  /** Throws AppError `invalid` or `conflict`. */
  async replace({ mappings, version }: Omit<RoleMappings, 'owner'>, actor: Actor): Promise<RoleMappings> {
    const { database, clock } = this.#deps
    if (this.#ofFile)
      throw new AppError('conflict', `WARDLINE_OIDC_ROLES_FILE has the table of roles: change it there.`)
    for (const [index, mapping] of mappings.entries()) {
      const fault = mappingFault(mapping)
      if (fault !== undefined) throw new AppError('invalid', `mappings/${index}: ${fault}.`)
    }
    const before = await readMappings(database.db)
    const now = clock.now()
    const action = { action: 'people.roles', target: null, before, after: mappings }
    const statements = [
      ...(await mappingStatements(database, { mappings, version })),
      ...this.#protection.statements(actor, action as never, now),
      ...auditStatements(database, actor, action as never, now),
    ]
    try {
      await database.batch(statements, { isControl: true })
    } catch (fault) {
      if (!(fault instanceof DatabaseError && fault.stale)) throw fault
      const stored = await readMappingsVersion(database.db)
      throw new AppError(
        'conflict',
        `The table of roles has version ${stored}, not ${version}: it was changed meanwhile, read it again.`,
      )
    }
    return { owner: 'service', mappings, version: version + 1 }
  }
}
