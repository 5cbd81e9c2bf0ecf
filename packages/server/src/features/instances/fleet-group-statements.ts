import { byAllTags } from '@wardline/contract'
import { type RawBuilder, sql } from 'kysely'
import { and, hasTag, hasTagFrom } from './fleet-filter-statements.ts'

const separator = ' · '

/** Name of the group of an agent with these tags. */
export function groupName(tags: readonly string[], by: string): string {
  if (by === byAllTags) return tags.join(separator)
  const prefix = `${by}:`
  const values = tags.filter((tag) => tag.startsWith(prefix)).map((tag) => tag.slice(prefix.length))
  return values.join(separator)
}

/** Condition that holds for all agents of a group, and for others with more tags. */
export function mayBeInGroup(by: string, name: string): RawBuilder<boolean> {
  const prefix = by === byAllTags ? '' : `${by}:`
  if (name === '') return sql<boolean>`not ${hasTagFrom(prefix)}`
  return and(name.split(separator).map((value) => hasTag(prefix + value)))
}
