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
  /** Mail address that the provider has verified. */
  mail_address: string | null
  /** When an admin last ended all sessions. */
  ended_at: number | null
}

/** Which alerts a person gets by mail. */
interface MailChoicesTable {
  person_id: string
  /** Those assigned to them. */
  assigned: 0 | 1
  /** JSON array of tags of operators: those on agents with one of them. */
  tags: string
}

/** The stored table of roles, in its order. Each row has either a group or a mail address. */
interface RoleMappingsTable {
  position: number
  group_name: string | null
  email: string | null
  role: PersonRole
  team: string | null
}

/** A passkey of the local admin. */
interface PasskeysTable {
  /** `passkey-` and 16 characters of base 36; stands where ids of keys stand. */
  id: string
  /** The local admin key for which it acts, and with which it ends. */
  key_id: string
  name: string
  /** Base64url, as browsers send it. */
  credential_id: string
  /** COSE key (RFC 9052) in base64url. */
  public_key: string
  /** Signatures so far as the authenticator counts them; 0: it does not. */
  counter: number
  /** Host name for which the browser made it. */
  rp_id: string
  created_at: number
  last_used_at: number | null
  removed_at: number | null
}

export interface PeopleTables {
  mail_choices: MailChoicesTable
  passkeys: PasskeysTable
  people: PeopleTable
  role_mappings: RoleMappingsTable
}
