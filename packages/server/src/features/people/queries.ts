import type { RoleMapping } from '@wardline/contract'
import type { Db, Statement } from '../../db/database.ts'

export async function readMappings(db: Db): Promise<RoleMapping[]> {
  const rows = await db.selectFrom('role_mappings').selectAll().orderBy('position').execute()
  return rows.map(({ group_name, email, role, team }) => ({
    ...(group_name === null ? {} : { group: group_name }),
    ...(email === null ? {} : { email }),
    role,
    ...(team === null ? {} : { tags: JSON.parse(team) as string[] }),
  }))
}

/** Replaces the table of roles. */
export function mappingStatements(db: Db, mappings: readonly RoleMapping[]): Statement[] {
  const rows = mappings.map(({ group, email, role, tags }, position) => ({
    position,
    group_name: group ?? null,
    email: email ?? null,
    role,
    team: tags ? JSON.stringify(tags) : null,
  }))
  const removing = db.deleteFrom('role_mappings').compile()
  return rows.length === 0 ? [removing] : [removing, db.insertInto('role_mappings').values(rows).compile()]
}
