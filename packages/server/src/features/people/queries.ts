import type { RoleMapping } from '@wardline/contract'
import type { Database, Db, Statement } from '../../db/database.ts'
import { claimFact, factStatement, lockFactStatement, readFact } from '../../db/facts.ts'

export async function readMappings(db: Db): Promise<RoleMapping[]> {
  const rows = await db.selectFrom('role_mappings').selectAll().orderBy('position').execute()
  return rows.map(({ group_name, email, role, team }) => ({
    ...(group_name === null ? {} : { group: group_name }),
    ...(email === null ? {} : { email }),
    role,
    ...(team === null ? {} : { tags: JSON.parse(team) as string[] }),
  }))
}

/** Returns the version of the table of roles. */
export async function readMappingsVersion(db: Db): Promise<number> {
  return Number((await readFact(db, 'roles_version')) ?? 0)
}

/** Replaces the table of roles, in a batch that fails as stale if it has another version by now. */
export async function mappingStatements(
  database: Database,
  { mappings, version }: { mappings: readonly RoleMapping[]; version: number },
): Promise<Statement[]> {
  const { db } = database
  // A row that can be locked.
  await claimFact(db, 'roles_version', '0')
  const asRead = lockFactStatement(database, 'roles_version', String(version))
  const counting = factStatement(db, 'roles_version', String(version + 1))
  const rows = mappings.map(({ group, email, role, tags }, position) => ({
    position,
    group_name: group ?? null,
    email: email ?? null,
    role,
    team: tags ? JSON.stringify(tags) : null,
  }))
  const removing = db.deleteFrom('role_mappings').compile()
  const adding = rows.length === 0 ? [] : [db.insertInto('role_mappings').values(rows).compile()]
  return [asRead, counting, removing, ...adding]
}
