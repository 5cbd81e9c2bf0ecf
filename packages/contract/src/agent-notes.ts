import { access, define } from './endpoint.ts'
import { InstanceId, InstanceParams, limits, nullable, Timestamp } from './fields.ts'
import { Type } from './type.ts'

export const AgentNote = nullable(
  Type.Object(
    {
      text: Type.String({ description: 'Plain text' }),
      author: Type.String({ description: 'Id of the person, or of the first key in the rotation chain' }),
      author_name: Type.String(),
      at: Timestamp,
    },
    { description: 'What people should know about the agent' },
  ),
)

export const noteEndpoints = {
  setInstanceNote: define({
    method: 'PUT',
    path: '/api/instances/:instanceId/note',
    access: access.operators,
    teams: 'agent',
    feature: 'instances',
    summary: 'Replace the note on an agent, which its page shows; an empty text removes it',
    params: InstanceParams,
    body: Type.Object({ text: Type.String({ maxLength: limits.agentNote }) }, { additionalProperties: false }),
    status: 200,
    reply: Type.Object({ ok: Type.Literal(true), id: InstanceId, note: AgentNote }),
    failures: { 404: 'Unknown instance' },
  }),
}
