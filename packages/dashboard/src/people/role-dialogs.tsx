import { type PersonRole, peopleLimits, personRoles, type RoleMapping, type RoleMappings } from '@wardline/contract'
import { useState } from 'react'
import { useFormChange } from '../data/change.ts'
import { changeRole } from '../data/people.ts'
import { queryKeys } from '../data/query-keys.ts'
import { ChangeDialog, entered } from '../parts/change-dialog.tsx'
import { FormDialog } from '../ui/dialog.tsx'
import { SelectField, TextField } from '../ui/field.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { Notice } from '../ui/panel.tsx'

const changes = [queryKeys.people]

/** The group or mail address of a row. */
const subjectOf = ({ group, email }: RoleMapping): string => group ?? email ?? ''

interface RoleDialogProps {
  /** The table that is changed: the one before which the person decided. */
  table: RoleMappings
  /** The row to change; undefined adds one. */
  mapping: RoleMapping | undefined
  /** Groups that the provider sent, to choose from. */
  groups: readonly string[]
  onClose(): void
}

function read(form: FormData, mapping: RoleMapping | undefined): RoleMapping {
  const role = entered(form, 'role') as PersonRole
  const tags = entered(form, 'tags')
    .split(/[\s,]+/)
    .filter((tag) => tag !== '')
  const given = role === 'admin' || tags.length === 0 ? { role } : { role, tags }
  if (mapping)
    return mapping.group === undefined ? { email: mapping.email, ...given } : { group: mapping.group, ...given }
  const subject = entered(form, 'subject')
  return form.get('kind') === 'email' ? { email: subject, ...given } : { group: subject, ...given }
}

/** Gives a role to a group or mail address. Role admin is asked for a second time. */
export function RoleDialog({ table, mapping, groups, onClose }: RoleDialogProps) {
  const [opened] = useState(table)
  const [asked, setAsked] = useState<RoleMapping>()
  const [kind, setKind] = useState('group')
  const [role, setRole] = useState<string>(mapping?.role ?? 'viewer')
  const { onSubmit, ...dialog } = useFormChange({
    changes,
    save: async (form) => {
      const next = asked ?? read(form, mapping)
      await changeRole(opened, next, next)
      return `${subjectOf(next)} has role ${next.role}.`
    },
    onClose,
  })
  function submit(form: FormData) {
    const next = read(form, mapping)
    if (!asked && next.role === 'admin' && mapping?.role !== 'admin') setAsked(next)
    else onSubmit(form)
  }
  return (
    <FormDialog
      {...dialog}
      title={asked ? 'Give role admin?' : mapping ? 'Change the role' : 'Add a role'}
      submit={asked ? 'Give role admin' : 'Save'}
      kind={asked ? 'act' : 'go'}
      onSubmit={submit}
    >
      {asked && (
        <Notice>
          {asked.group === undefined ? 'Who has the mail address ' : 'Everyone in the group '}
          <b>
            <HostileText text={subjectOf(asked)} max={256} />
          </b>{' '}
          will be able to do everything here: create keys, change rules, give roles.
        </Notice>
      )}
      {!asked && mapping && (
        <p className="mono">
          <HostileText text={subjectOf(mapping)} max={256} />
        </p>
      )}
      {!asked && !mapping && (
        <>
          <SelectField
            label="Who"
            name="kind"
            value={kind}
            options={[
              ['group', 'a group'],
              ['email', 'a mail address'],
            ]}
            onChange={({ target }) => setKind(target.value)}
          />
          <TextField
            label={kind === 'group' ? 'Group' : 'Mail address'}
            hint={
              kind === 'group'
                ? 'Exactly as the provider sends it.'
                : 'Counts only if the provider says that it is verified.'
            }
            name="subject"
            required
            isFirst
            isCode
            maxLength={peopleLimits.group}
            suggestions={kind === 'group' ? groups : []}
          />
        </>
      )}
      {!asked && (
        <SelectField
          label="Role"
          hint={role === 'approver' ? 'Views all, and decides approvals.' : undefined}
          name="role"
          value={role}
          options={personRoles}
          onChange={({ target }) => setRole(target.value)}
        />
      )}
      {!asked && role !== 'admin' && (
        <TextField
          label="Only agents tagged"
          hint="Tags of operators, such as team:payments: they see and reach only agents with one of them. Default: all agents."
          name="tags"
          defaultValue={mapping?.tags?.join(' ')}
          isCode
          maxLength={1_000}
        />
      )}
    </FormDialog>
  )
}

interface RemoveDialogProps {
  table: RoleMappings
  mapping: RoleMapping
  isOwn: boolean
  onClose(): void
}

/** Takes the role from a group or mail address. */
export function RemoveDialog({ table, mapping, isOwn, onClose }: RemoveDialogProps) {
  const [opened] = useState(table)
  return (
    <ChangeDialog
      changes={changes}
      title={
        <>
          Remove role {mapping.role} from <HostileText text={subjectOf(mapping)} max={60} />?
        </>
      }
      submit="Remove role"
      kind="act"
      send={async () => {
        await changeRole(opened, mapping, undefined)
        return 'Role removed.'
      }}
      onClose={onClose}
    >
      <p>Within ten minutes, people whose role comes only from it are signed out.</p>
      {isOwn && <Notice>Your own role comes from it.</Notice>}
    </ChangeDialog>
  )
}
