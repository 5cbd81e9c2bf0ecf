import type { Static } from 'typebox'
import { ServerName } from './agent-configs.ts'
import { access, define } from './endpoint.ts'
import { Count, nullable, Timestamp, UpTo } from './fields.ts'
import { Type } from './type.ts'

export const toolServerLimits = {
  /** Servers of a page: with all variants at their longest, it has about 1 MiB. */
  page: 100,
  /** Variants that are listed of a server; further ones are only counted. */
  variants: 20,
} as const

const Agents = { ...Count, description: 'Agents whose configuration names it' }
const LastSeen = { ...Timestamp, description: 'When one of them last reported it, to about an hour' }

const ToolServerVariant = Type.Object({
  version: nullable(Type.String({ description: 'Null = the configuration names none' })),
  command: nullable(Type.String({ description: 'The program, without arguments; null = it has an address' })),
  address: nullable(Type.String({ description: 'The URL, without user and query' })),
  agents: Agents,
  first_seen: { ...Timestamp, description: 'When the first of these agents began to report this variant' },
  last_seen: LastSeen,
})
export type ToolServerVariant = Static<typeof ToolServerVariant>

const ToolServer = Type.Object({
  name: Type.String({ description: 'As an agent reports it. Names that differ only in case are one server' }),
  agents: Agents,
  first_seen: { ...Timestamp, description: 'When the first of these agents began to report it' },
  last_seen: LastSeen,
  variants: Type.Array(ToolServerVariant, {
    description: `By version, command and address, those of most agents first; at most ${toolServerLimits.variants}`,
  }),
  variant_count: { ...Count, description: 'All variants' },
})
export type ToolServer = Static<typeof ToolServer>

const ToolServerQuery = Type.Object({
  after: Type.Optional({ ...ServerName, description: 'Cursor: `next` of the previous page' }),
  limit: Type.Optional(
    UpTo(toolServerLimits.page, `Servers a page, 1 to ${toolServerLimits.page}; default: ${toolServerLimits.page}`),
  ),
})

const ToolServerList = Type.Object({
  servers: Type.Array(ToolServer, { description: 'By name. A page may be shorter than its limit' }),
  next: nullable(Type.String({ description: 'Pass it as `after` for the next page; null on the last page' })),
})
export type ToolServerList = Static<typeof ToolServerList>

export const toolServerEndpoints = {
  listToolServers: define({
    method: 'GET',
    path: '/api/tool-servers',
    access: access.readers,
    teams: 'agents',
    feature: 'instances',
    summary: 'List the tool servers that agents report in their configuration, with versions and numbers of agents',
    query: ToolServerQuery,
    status: 200,
    reply: ToolServerList,
  }),
}
