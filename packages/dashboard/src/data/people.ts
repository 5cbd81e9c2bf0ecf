import { queryOptions } from '@tanstack/react-query'
import type { RoleMapping, RoleMappings } from '@wardline/contract'
import { call } from './client.ts'
import { queryKeys } from './query-keys.ts'

/** The stream does not report people; this interval covers who signs in meanwhile. */
const refreshMs = 15_000

export const peopleQuery = queryOptions({
  queryKey: queryKeys.peopleList,
  queryFn: async ({ signal }) => (await call('listPeople', { signal })).people,
  refetchInterval: refreshMs,
})

export const personQuery = (id: string) =>
  queryOptions({
    queryKey: queryKeys.person(id),
    queryFn: ({ signal }) => call('getPerson', { params: { id }, signal }),
    refetchInterval: refreshMs,
  })

export const rolesQuery = queryOptions({
  queryKey: queryKeys.roles,
  queryFn: ({ signal }) => call('getRoleMappings', { signal }),
  refetchInterval: refreshMs,
})

/** Whether two rows are about the same group or mail address, which is compared without case. */
const isSameSubject = (one: RoleMapping, other: RoleMapping): boolean =>
  one.group === other.group && one.email?.toLowerCase() === other.email?.toLowerCase()

/** Replaces the row of a group or mail address in the table that is shown; `next` undefined removes it. Throws WardlineError. */
export async function changeRole(
  { mappings, version }: RoleMappings,
  subject: RoleMapping,
  next: RoleMapping | undefined,
): Promise<void> {
  const others = mappings.filter((mapping) => !isSameSubject(mapping, subject))
  await call('setRoleMappings', { body: { mappings: next ? [...others, next] : others, version } })
}
