import { byAllTags } from '@wardline/contract'
import { type RawBuilder, sql } from 'kysely'
import { and } from './fleet-filter-statements.ts'

const separator = ' · '

/** Name of the group of an agent with these tags. */
export function groupName(tags: readonly string[], by: string): string {
  if (by === byAllTags) return tags.join(separator)
  const prefix = `${by}:`
  const values = tags.filter((tag) => tag.startsWith(prefix)).map((tag) => tag.slice(prefix.length))
  return values.join(separator)
}

const has = (pattern: string) =>
  sql<boolean>`(coalesce(agent_tags, '') like ${pattern} escape '\\' or coalesce(operator_tags, '') like ${pattern} escape '\\')`
const escaped = (text: string) => text.replace(/[\\%_]/g, '\\$&')

/** Condition that holds for all agents of a group, and for others with more tags. */
export function mayBeInGroup(by: string, name: string): RawBuilder<boolean> {
  const prefix = by === byAllTags ? '' : `${by}:`
  if (name === '') return sql<boolean>`not ${has(`%"${escaped(prefix)}${prefix === '' ? '_' : ''}%`)}`
  return and(name.split(separator).map((value) => has(`%"${escaped(prefix + value)}"%`)))
}
