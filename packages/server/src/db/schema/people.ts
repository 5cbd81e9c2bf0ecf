import type { PersonRole } from '@wardline/contract'

interface PeopleTable {
  /** `person-` and 16 characters of base 36; stands where ids of keys stand. */
  id: string
  issuer: string
  /** Identifies the person at the issuer. */
  subject: string
  name: string
  email: string | null
  /** Null = no group has a role. */
  role: PersonRole | null
  /** Group or mail address that gave the role. */
  role_by: string | null
  /** JSON array of the groups at the last evaluation. */
  groups: string
  /** JSON array of the operators' tags to whose agents the person is limited; null = all agents. */
  team: string | null
  first_seen_at: number
  signed_in_at: number
  evaluated_at: number
}

/** The stored table of roles, in its order. Each row has either a group or a mail address. */
interface RoleMappingsTable {
  position: number
  group_name: string | null
  email: string | null
  role: PersonRole
  team: string | null
}

export interface PeopleTables {
  people: PeopleTable
  role_mappings: RoleMappingsTable
}
