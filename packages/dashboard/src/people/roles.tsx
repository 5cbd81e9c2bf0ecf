import { useQuery } from '@tanstack/react-query'
import type { Person, RoleMapping } from '@wardline/contract'
import { useState } from 'react'
import { rolesQuery } from '../data/people.ts'
import { Button } from '../ui/button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { lazyDialog } from '../ui/lazy-dialog.tsx'
import { DataTable } from '../ui/table.tsx'
import { plainText } from '../ui/unseen-characters.ts'

const RoleDialog = lazyDialog(async () => (await import('./role-dialogs.tsx')).RoleDialog)
const RemoveDialog = lazyDialog(async () => (await import('./role-dialogs.tsx')).RemoveDialog)

const subject = ({ group, email }: RoleMapping) => plainText(group ?? email ?? '')

type Asked = { action: 'give'; mapping?: RoleMapping } | { action: 'remove'; mapping: RoleMapping }

interface RolesProps {
  people: readonly Person[]
  /** The person who is signed in; undefined for keys. */
  own: Person | undefined
}

/** Which groups and mail addresses have which role. */
export function Roles({ people, own }: RolesProps) {
  const { data, error } = useQuery(rolesQuery)
  const [asked, setAsked] = useState<Asked>()
  const close = () => setAsked(undefined)
  const isOfFile = data?.owner === 'file'
  const groups = [...new Set(people.flatMap(({ role_by }) => role_by ?? []))].sort()
  return (
    <>
      <DataTable
        title="Roles"
        note={
          isOfFile
            ? 'The file of WARDLINE_OIDC_ROLES_FILE has them: change it there.'
            : 'The highest role of a person applies. Each change is audited and raises an alert.'
        }
        end={data && !isOfFile && <Button onClick={() => setAsked({ action: 'give' })}>Add a role…</Button>}
        fault={error}
        rows={data?.mappings}
        rowKey={({ group, email }) => `${group} ${email}`}
        empty="No group has a role: nobody can sign in at the provider yet."
        columns={[
          {
            name: 'Group or mail address',
            cell: ({ group, email }) => (
              <>
                <span className="mono">
                  <HostileText text={group ?? email ?? ''} max={256} />
                </span>
                {email !== undefined && <span className="quiet"> verified mail address</span>}
              </>
            ),
          },
          { name: 'Role', kind: 'word', cell: ({ role }) => role },
          { name: 'Agents', cell: ({ tags }) => (tags ? <HostileText text={tags.join(', ')} max={200} /> : 'all') },
        ]}
        {...(data?.owner === 'service' && {
          actions: (mapping: RoleMapping) => (
            <>
              <Button about={subject(mapping)} onClick={() => setAsked({ action: 'give', mapping })}>
                Change…
              </Button>
              <Button kind="danger" about={subject(mapping)} onClick={() => setAsked({ action: 'remove', mapping })}>
                Remove…
              </Button>
            </>
          ),
        })}
      />
      {data && asked?.action === 'give' && (
        <RoleDialog table={data} mapping={asked.mapping} groups={groups} onClose={close} />
      )}
      {data && asked?.action === 'remove' && (
        <RemoveDialog
          table={data}
          mapping={asked.mapping}
          isOwn={own !== undefined && own.role_by === (asked.mapping.group ?? asked.mapping.email)}
          onClose={close}
        />
      )}
    </>
  )
}
