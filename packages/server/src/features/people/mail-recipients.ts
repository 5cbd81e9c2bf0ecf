import { type MailChoice, mailAddressPattern, type RoleMapping } from '@wardline/contract'
import { dayMs } from '../../clock.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import type { Principal } from '../../http/auth.ts'
import { type Actor, auditStatements } from '../audit/audit.ts'
import {
  type ChoosingPerson,
  findChoosing,
  findMailChoice,
  mailChoiceStatement,
  readChoosingTags,
} from './mail-statements.ts'
import { findPerson, type PersonRow } from './person-statements.ts'
import { type Granted, roleOf } from './roles.ts'

/** Without a session the provider is not asked about a person. A week is longer than a weekend with a holiday, and limits what a leaver gets. */
const knownForMs = 7 * dayMs

const isAddress = new RegExp(mailAddressPattern)

/** A person who gets mail now. */
export interface MailRecipient {
  id: string
  address: string
  /** Tags to whose agents the person is limited; undefined: all agents. */
  team: readonly string[] | undefined
  assigned: boolean
  tags: readonly string[]
}

type Proven = Pick<
  PersonRow,
  'issuer' | 'groups' | 'mail_address' | 'email' | 'role' | 'signed_in_at' | 'evaluated_at' | 'ended_at'
>

/** Who gets mail, by what the provider said last and the table of roles as it is now. */
export class MailRecipients {
  readonly #deps: Pick<Deps, 'config' | 'database' | 'clock'>
  readonly #readMappings: () => Promise<readonly RoleMapping[]>

  constructor(deps: Pick<Deps, 'config' | 'database' | 'clock'>, readMappings: () => Promise<readonly RoleMapping[]>) {
    this.#deps = deps
    this.#readMappings = readMappings
  }

  /** Returns the role that the groups of the person give by now, or why the person gets no mail. */
  #admit(person: Proven, mappings: readonly RoleMapping[]): Granted | string {
    const { config, clock } = this.#deps
    const { issuer, mail_address, email, role, signed_in_at, evaluated_at, ended_at } = person
    const described = {
      ...{ groups: JSON.parse(person.groups) as string[], name: '', email },
      verifiedEmail: mail_address ?? undefined,
    }
    const granted = role === null || issuer !== config.oidcIssuer ? undefined : roleOf(mappings, described)
    if (!granted) return 'No group of yours has a role.'
    if (ended_at !== null && ended_at >= signed_in_at) return 'An admin ended your sessions: sign in again.'
    if (clock.now() - evaluated_at > knownForMs) return 'You last signed in a week ago: sign in again.'
    if (mail_address !== null && isAddress.test(mail_address)) return granted
    return email === null
      ? 'The provider sends no mail address of yours (claim email).'
      : 'The provider does not say that it verified your mail address (claim email_verified): only verified addresses get mail.'
  }

  #recipientOf(person: ChoosingPerson, mappings: readonly RoleMapping[]): MailRecipient[] {
    const granted = this.#admit(person, mappings)
    if (typeof granted === 'string') return []
    const { id, mail_address, assigned, tags } = person
    const choice = { assigned: assigned === 1, tags: JSON.parse(tags) as string[] }
    return [{ id, address: mail_address!, team: granted.team ?? undefined, ...choice }]
  }

  /** Returns the people who get mail for tags. */
  async withTags(): Promise<MailRecipient[]> {
    const people = await readChoosingTags(this.#deps.database.db)
    if (people.length === 0) return []
    const mappings = await this.#readMappings()
    return people.flatMap((person) => this.#recipientOf(person, mappings))
  }

  /** Returns the person if they get mail now. */
  async find(id: string): Promise<MailRecipient | undefined> {
    const person = await findChoosing(this.#deps.database.db, id)
    return person && this.#recipientOf(person, await this.#readMappings())[0]
  }

  /** Returns what the caller chose, with the address that gets it. */
  async view({ person }: Principal, isSent: boolean): Promise<MailChoice> {
    const { db } = this.#deps.database
    const row = person && (await findPerson(db, person.id))
    if (!row) {
      const unavailable = 'Only people who sign in at the provider get mail.'
      return { assigned: false, tags: [], address: null, unavailable }
    }
    const chosen = await findMailChoice(db, row.id)
    const admitted = this.#admit(row, await this.#readMappings())
    const noServer = 'No mail channel sends mail to people: an admin switches that on in the settings of one.'
    const unavailable = typeof admitted === 'string' ? admitted : isSent ? null : noServer
    return {
      assigned: chosen?.assigned === 1,
      tags: chosen ? JSON.parse(chosen.tags) : [],
      address: row.mail_address,
      unavailable,
    }
  }

  /** Throws AppError `forbidden` for callers who are no person. */
  async choose({ person }: Principal, choice: Pick<MailChoice, 'assigned' | 'tags'>, actor: Actor): Promise<void> {
    const { database, clock } = this.#deps
    if (!person) throw new AppError('forbidden', 'Only people who sign in at the provider choose mail.')
    const tags = [...new Set(choice.tags)].sort()
    const known = await findMailChoice(database.db, person.id)
    const before = known ? { assigned: known.assigned === 1, tags: JSON.parse(known.tags) } : null
    const action = { action: 'person.mail', target: person.id, before, after: { ...choice, tags } }
    const row = { person_id: person.id, assigned: choice.assigned ? 1 : 0, tags: JSON.stringify(tags) } as const
    await database.batch([
      mailChoiceStatement(database.db, row),
      ...auditStatements(database, actor, action, clock.now()),
    ])
  }
}
