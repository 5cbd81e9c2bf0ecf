import { type PersonRole, peopleLimits, personRoles, type RoleMapping } from '@wardline/contract'
import { sanitize } from '@wardline/text'

export type Claims = Readonly<Record<string, unknown>>

/** Groups of a person, and why they may not be all of them. */
export interface ReadGroups {
  groups: string[]
  /** missing = no such claim; omitted = too many for the token, which says so; truncated = perhaps cut off */
  doubt?: 'missing' | 'omitted' | 'truncated'
}

/** Okta cuts its list of groups at this number, without a sign of it. */
const oktaLimit = 100

/** Returns the value at a path such as `realm_access.roles`. A claim whose name contains the dots goes first. */
function valueAt(claims: Claims, path: string): unknown {
  if (Object.hasOwn(claims, path)) return claims[path]
  return path.split('.').reduce<unknown>((value, name) => {
    const isObject = typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    return isObject ? (value as Claims)[name] : undefined
  }, claims)
}

/** Whether Entra left the groups out, because they are more than fit into the token. */
function isOmitted(claims: Claims, path: string): boolean {
  const names = claims._claim_names
  const isElsewhere = typeof names === 'object' && names !== null && Object.hasOwn(names, path)
  return isElsewhere || claims.hasgroups === true || claims.hasgroups === 'true'
}

/** Reads the groups as an array, one text, or texts separated by commas. */
export function readGroups(claims: Claims, path: string): ReadGroups {
  const value = valueAt(claims, path)
  if (value === undefined || value === null) {
    return { groups: [], doubt: isOmitted(claims, path) ? 'omitted' : 'missing' }
  }
  const split = typeof value === 'string' ? value.split(',').map((one) => one.trim()) : value
  const texts = Array.isArray(split) ? split.filter((one): one is string => typeof one === 'string') : []
  const groups = texts.filter((one) => one !== '' && one.length <= peopleLimits.group)
  const isCut = groups.length === oktaLimit || groups.length > peopleLimits.groups
  return { groups: groups.slice(0, peopleLimits.groups), ...(isCut ? { doubt: 'truncated' as const } : {}) }
}

/** What a provider says of a person. */
export interface Described extends ReadGroups {
  name: string
  email: string | null
  /** The mail address as the provider sends it, if it says that it has verified it; in lower case. */
  verifiedEmail: string | undefined
}

const textOf = (value: unknown, max: number): string | undefined => {
  const text = typeof value === 'string' ? [...sanitize(value)].slice(0, max).join('') : ''
  return text === '' ? undefined : text
}

/** Other characters than these look like, or are folded to, those of another address. */
const plainAddress = /^[!-~]{1,254}$/

/** Returns the mail address of a source that says itself that it is verified. */
function verifiedEmail({ email, email_verified: verified }: Claims): string | undefined {
  const isVerified = verified === true || verified === 'true'
  return isVerified && typeof email === 'string' && plainAddress.test(email) ? email.toLowerCase() : undefined
}

/** Characters of a name or mail address that are kept. */
const nameLength = 100

/** Reads who a person is from claims, of which the first that have the groups count. `sub` is a text in all of them. */
export function describe(sources: readonly Claims[], groupsClaim: string): Described {
  const read = sources.map((claims) => readGroups(claims, groupsClaim))
  const groups =
    read.find(({ doubt }) => doubt !== 'missing' && doubt !== 'omitted') ??
    read.find(({ doubt }) => doubt === 'omitted') ??
    read[0]!
  const claim = (name: string) => sources.map((claims) => claims[name]).find((value) => value !== undefined)
  const email = textOf(claim('email'), nameLength)
  const named = ['name', 'preferred_username', 'email', 'sub'].map((name) => textOf(claim(name), nameLength))
  return {
    ...groups,
    name: named.find((name) => name !== undefined) ?? 'unnamed',
    email: email ?? null,
    verifiedEmail: sources.map(verifiedEmail).find((address) => address !== undefined),
  }
}

export interface Granted {
  role: PersonRole
  /** The group or mail address that gave it. */
  by: string
  /** Tags to whose agents the role is limited, sorted; null = all agents. */
  team: string[] | null
}

const sortedTags = (tags: readonly string[]): string[] => [...new Set(tags)].sort()

/** Returns the highest role that the table gives; undefined = none. */
export function roleOf(mappings: readonly RoleMapping[], { groups, verifiedEmail }: Described): Granted | undefined {
  const own = new Set(groups)
  let best: Granted | undefined
  for (const mapping of mappings) {
    const isOwn =
      mapping.group !== undefined
        ? own.has(mapping.group)
        : verifiedEmail !== undefined && mapping.email?.toLowerCase() === verifiedEmail
    const rank = best ? personRoles.indexOf(mapping.role) - personRoles.indexOf(best.role) : 1
    if (!isOwn || rank < 0) continue
    const { role, group, email, tags = null } = mapping
    if (!best || rank > 0) best = { role, by: group ?? email!, team: tags && sortedTags(tags) }
    // Several groups with the same role: the agents of all of them.
    else best.team = best.team && tags && sortedTags([...best.team, ...tags])
  }
  return best
}

/** Says why a person has no role, and what to change. */
export function refusalOf(mappings: readonly RoleMapping[], described: Described, groupsClaim: string): string {
  if (mappings.length === 0) return 'No group has a role yet: the admin of this service sets the table of roles.'
  const byEmail = mappings.some(({ email }) => email !== undefined)
  const { doubt, email, verifiedEmail, groups } = described
  if (doubt === 'omitted') {
    return `The provider left your groups out, because they are too many for its token: let it send app roles, or only groups that are assigned to this application, in the claim ${groupsClaim}.`
  }
  if (doubt === 'truncated') {
    return `None of the ${groups.length} groups that the provider sent has a role, and its list may be cut off there: let it send fewer groups, by a filter.`
  }
  if (doubt === 'missing') {
    const unverified = byEmail && email !== null && verifiedEmail === undefined
    return unverified
      ? 'The provider does not say that your mail address is verified, and it sends no groups.'
      : `The provider sends no claim ${groupsClaim}: add it there, or set WARDLINE_OIDC_GROUPS_CLAIM to its name.`
  }
  return 'None of your groups has a role in this service: ask its admin.'
}
