import { createHash } from 'node:crypto'
import type { Person, PersonRole } from '@wardline/contract'
import { isoTime } from '../../clock.ts'
import type { Db } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import { unknownId } from '../../errors.ts'
import type { Principal } from '../../http/auth.ts'
import { findPerson, type ListedPerson, type PersonRow, personPrefix } from './person-statements.ts'
import type { Described, Granted } from './roles.ts'

/** People remembered between two reads of their sessions, some hundred bytes each. */
const maxRemembered = 10_000

/** Returns the id of a person, which follows from issuer and subject: concurrent first sign-ins are of one person. */
export function personId(issuer: string, subject: string): string {
  const digest = createHash('sha256')
    .update(JSON.stringify([issuer, subject]))
    .digest('hex')
  return personPrefix + BigInt(`0x${digest}`).toString(36).slice(-16)
}

/** Returns the row of a person as the provider describes them now. */
export function personRow(
  { issuer, subject }: Pick<PersonRow, 'issuer' | 'subject'>,
  described: Described,
  granted: Granted | undefined,
  { now, signedInAt }: { now: number; signedInAt: number },
): PersonRow {
  return {
    id: personId(issuer, subject),
    issuer,
    subject,
    name: described.name,
    email: described.email,
    role: granted?.role ?? null,
    role_by: granted?.by ?? null,
    team: granted?.team ? JSON.stringify(granted.team) : null,
    groups: JSON.stringify(described.groups),
    first_seen_at: now,
    signed_in_at: signedInAt,
    evaluated_at: now,
    mail_address: described.verifiedEmail ?? null,
    ended_at: null,
  }
}

/** Returns what a session of the person may do. */
export const principalOf = ({ id, name, issuer, team }: PersonRow, role: PersonRole): Principal => ({
  keyId: id,
  name,
  scope: role,
  instances: null,
  registers: { owner: id, max: null, tags: null },
  person: { id, name, issuer, role },
  ...(team === null ? {} : { team: JSON.parse(team) as string[] }),
})

/** The people whose sessions are in use, as the database has them. */
export class People {
  readonly #deps: Deps
  readonly #known = new Map<string, Principal>()

  constructor(deps: Deps) {
    this.#deps = deps
  }

  /** Returns the principal of a person that `findStoredById` has read. */
  findById(id: string): Principal | undefined {
    return this.#known.get(id)
  }

  /** Reads the person, whose role another process may have changed. */
  async findStoredById(id: string): Promise<Principal | undefined> {
    const row = await findPerson(this.#deps.database.db, id)
    this.#known.delete(id)
    if (!row || row.role === null) return undefined
    if (this.#known.size >= maxRemembered) this.#known.clear()
    const principal = principalOf(row, row.role)
    this.#known.set(id, principal)
    return principal
  }
}

export function viewPerson(row: ListedPerson, sessions: number): Person {
  const { id, name, email, issuer, subject, role, role_by, team } = row
  return {
    id,
    name,
    email,
    issuer,
    subject,
    role,
    tags: team === null ? null : JSON.parse(team),
    role_by,
    first_seen_at: isoTime(row.first_seen_at),
    signed_in_at: isoTime(row.signed_in_at),
    evaluated_at: isoTime(row.evaluated_at),
    sessions,
  }
}

/** Throws AppError `not_found`. */
export async function requirePerson(db: Db, id: string): Promise<PersonRow> {
  const row = await findPerson(db, id)
  if (row) return row
  throw unknownId('person', id, 'wardline people')
}
