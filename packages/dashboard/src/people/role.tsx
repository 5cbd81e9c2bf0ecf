import type { Person } from '@wardline/contract'
import { HostileText } from '../ui/hostile-text.tsx'

/** The role of a person, and what gave it. */
export function Role({ person: { role, tags, role_by } }: { person: Person }) {
  if (role === null) return <span className="warning">none: no group has a role</span>
  return (
    <>
      {role}
      {tags && (
        <>
          {' for '}
          <HostileText text={tags.join(', ')} max={200} />
        </>
      )}
      {role_by !== null && (
        <span className="quiet">
          {' by '}
          <HostileText text={role_by} max={100} />
        </span>
      )}
    </>
  )
}
