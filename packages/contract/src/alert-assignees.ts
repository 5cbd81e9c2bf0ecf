import { access, define } from './endpoint.ts'
import { choice, limits, NotBlank } from './fields.ts'
import { Type } from './type.ts'

/** A filter. */
export const Assigned = Type.Optional(
  NotBlank({ minLength: 1, maxLength: 100, description: 'The id of a person or key, `me`, or `none`' }),
)

/** Whom a change names. */
export const Assignee = NotBlank({
  minLength: 1,
  maxLength: 100,
  description:
    'A person with role operator or admin, or a key with that scope, by id, name or mail address; or `me`. A key of a person stands for that person',
})

const Assignees = Type.Object({
  assignees: Type.Array(
    Type.Object({ id: Type.String(), name: Type.String(), kind: choice(['person', 'key']), own: Type.Boolean() }),
  ),
})

export const assigneeEndpoints = {
  listAssignees: define({
    method: 'GET',
    path: '/api/assignees',
    access: access.operators,
    teams: 'global',
    feature: 'alerts',
    summary: `List to whom an alert can be assigned: people, at most ${limits.assignees}, then keys, as many`,
    status: 200,
    reply: Assignees,
  }),
}
