import type { Static } from 'typebox'
import { access, define } from './endpoint.ts'
import { limits, NotBlank, Ok, Pattern, Timestamp, Uuid } from './fields.ts'
import { Type } from './type.ts'

const name = NotBlank({ minLength: 1, maxLength: limits.name, description: 'For people' })
const screen = Pattern('^[a-z0-9-]+$', 'may contain only lower-case letters, digits and -', {
  maxLength: 40,
  description: 'The screen of the dashboard that the view belongs to, such as events',
})
const query = Pattern('^[!-~]*$', 'may contain only visible ASCII characters, and no spaces', {
  maxLength: limits.viewQuery,
  description: 'The query of the URL of that screen, percent-encoded, without the question mark',
})

const NewView = Type.Object(
  {
    name,
    screen,
    query,
    shared: Type.Optional(
      Type.Boolean({ description: 'Whether every reader sees it; scopes operator and admin only; default: false' }),
    ),
  },
  { additionalProperties: false },
)
export type NewView = Static<typeof NewView>

const SavedView = Type.Object({
  id: Uuid,
  name,
  screen,
  query,
  shared: Type.Boolean(),
  owner: Type.String({ description: 'Name of the key that made it' }),
  own: Type.Boolean({ description: 'Whether the caller made it' }),
  created_at: Timestamp,
  changed_at: Timestamp,
})
export type SavedView = Static<typeof SavedView>

const ViewParams = Type.Object({ id: Uuid })
const ViewList = Type.Object({ views: Type.Array(SavedView, { maxItems: limits.views }) })
const ViewCreated = Type.Object({ ok: Type.Literal(true), id: Uuid })

export const viewEndpoints = {
  listViews: define({
    method: 'GET',
    path: '/api/views',
    access: access.readers,
    teams: 'global',
    feature: 'views',
    summary: 'List the saved views of the caller and those that are shared; scope admin sees all',
    status: 200,
    reply: ViewList,
  }),
  createView: define({
    method: 'POST',
    path: '/api/views',
    access: access.readers,
    teams: 'global',
    feature: 'views',
    summary: `Save a view, at most ${limits.views} in all and ${limits.viewsOfKey} of one key`,
    body: NewView,
    status: 201,
    reply: ViewCreated,
  }),
  replaceView: define({
    method: 'PUT',
    path: '/api/views/:id',
    access: access.readers,
    teams: 'global',
    feature: 'views',
    summary: 'Replace a view of the caller; scope admin replaces any',
    params: ViewParams,
    body: NewView,
    status: 200,
    reply: Ok,
    failures: { 404: 'Unknown view, or the private view of another key' },
  }),
  deleteView: define({
    method: 'DELETE',
    path: '/api/views/:id',
    access: access.readers,
    teams: 'global',
    feature: 'views',
    summary: 'Delete a view of the caller; scope admin deletes any',
    params: ViewParams,
    status: 200,
    reply: Ok,
    failures: { 404: 'Unknown view, or the private view of another key' },
  }),
}
