import { access, define } from './endpoint.ts'
import { limits, NotBlank, nullable, Timestamp, Uuid } from './fields.ts'
import { Type } from './type.ts'

export const CommentText = NotBlank({ minLength: 1, maxLength: limits.alertComment, description: 'Plain text' })

export const Comment = Type.Object({
  id: Uuid,
  at: Timestamp,
  author: Type.String({ description: 'Id of the person, or of the first key in the rotation chain' }),
  author_name: Type.String(),
  own: Type.Boolean({ description: 'Whether the caller wrote it' }),
  text: nullable(Type.String({ description: 'Null after it was deleted' })),
  deleted_by_name: nullable(Type.String()),
})

const AlertParams = Type.Object({ id: Uuid })
const CommentDone = Type.Object({ ok: Type.Literal(true), id: { ...Uuid, description: 'Id of the comment' } })

export const commentEndpoints = {
  addComment: define({
    method: 'POST',
    path: '/api/alerts/:id/comments',
    access: access.operators,
    teams: 'agents',
    feature: 'alerts',
    summary: `Comment on an alert, at most ${limits.alertComments} times; a comment is never changed`,
    params: AlertParams,
    body: Type.Object({ text: CommentText }, { additionalProperties: false }),
    status: 201,
    reply: CommentDone,
    failures: { 404: 'Unknown alert' },
  }),
  deleteComment: define({
    method: 'DELETE',
    path: '/api/alert-comments/:id',
    access: access.operators,
    teams: 'agents',
    feature: 'alerts',
    summary: 'Delete the text of a comment of the caller; scope admin deletes any. Who deleted it stays',
    params: AlertParams,
    status: 200,
    reply: CommentDone,
    failures: { 404: 'Unknown comment' },
  }),
}
