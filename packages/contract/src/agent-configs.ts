import type { Static } from 'typebox'
import { access, define } from './endpoint.ts'
import { Count, choice, InstanceParams, nullable, Pattern, Timestamp } from './fields.ts'
import { Type } from './type.ts'

export const configLimits = {
  /** Settings with servers, skills and tools of a busy machine have some 200; this many fit into a body. */
  items: 1_000,
  /** Configurations of one agent: each folder that a coding agent works in and each tool server has one. */
  sources: 50,
  /**
   * Names in the list of all tool servers from the agents of one key: a busy machine has some twenty servers, and the agents
   * of a key share most of theirs. Five pages of the list, so that a key cannot fill it with invented names.
   */
  listedServers: 500,
  name: 200,
  version: 100,
  /** Changes that an event lists; further ones are only counted. */
  listedChanges: 20,
} as const

/** Name of the item that stands for the tools of a server that lists too many to compare, or never all of them. */
export const toolsNotCompared = 'tools: not compared, too many'

const configKinds = ['hook', 'permission', 'server', 'skill', 'plugin', 'instructions', 'tool'] as const
export type ConfigKind = (typeof configKinds)[number]

/** Text that is shown to people, and searched for as a whole. */
const OneLine = (maxLength: number, description: string) =>
  Pattern('^[^\\x00-\\x1f\\x7f]*$', 'must be one line of text', { minLength: 1, maxLength, description })
/** Name of a server, also in a search. */
export const ServerName = OneLine(configLimits.name, 'Name of a tool server, as the coding agent calls it')

const Source = (maxLength: number, description: string) =>
  Pattern(
    '^[a-z0-9][a-z0-9._:-]*$',
    'may contain only lower-case letters, digits, ., _, : and -, and begins with a letter or digit',
    { maxLength, description, examples: ['claude-code', 'mcp:github'] },
  )
const whose = 'Whose configuration it is: a coding agent, also in one folder, or a tool server behind the MCP proxy'
const ConfigSource = Source(100, whose)
/** With the prefix that the service adds. */
const StoredSource = Source(111, `${whose}. What the key of a supervisor reported begins with supervisor:`)

const ConfigItem = Type.Object(
  {
    kind: choice(configKinds, 'hook, permission, server, skill, plugin, instructions, or a tool of a tool server'),
    name: OneLine(configLimits.name, 'Unique within the kind'),
    sha256: Pattern('^[0-9a-f]{64}$', 'must be 64 lower-case hexadecimal digits', {
      description: 'Hash of the content with a secret of the reporter: the content cannot be guessed from it',
    }),
    ours: Type.Optional(
      Type.Boolean({
        description: "Wardline's hook before tool calls, as it was installed; absent once it is weakened",
      }),
    ),
    command: Type.Optional(OneLine(configLimits.name, 'Of a server: the program, without arguments')),
    address: Type.Optional(OneLine(configLimits.name, 'Of a server: the URL, without user and query')),
    version: Type.Optional(OneLine(configLimits.version, 'Of a server or plugin')),
  },
  { additionalProperties: false },
)
export type ConfigItem = Static<typeof ConfigItem>

const ReportedConfig = Type.Object(
  {
    source: ConfigSource,
    items: Type.Array(ConfigItem, { maxItems: configLimits.items }),
  },
  { additionalProperties: false },
)
export type ReportedConfig = Static<typeof ReportedConfig>

const ConfigReported = Type.Object({
  changes: {
    ...Count,
    description:
      'Items added, removed or changed since the last report; 0 for the first one, unless it has tools that are not compared',
  },
})

const InstanceConfig = Type.Object({
  configs: Type.Array(
    Type.Object({
      source: StoredSource,
      since: { ...Timestamp, description: 'When this state was first reported' },
      reported_at: { ...Timestamp, description: 'When it was last reported, to about a minute' },
      changed_at: nullable({ ...Timestamp, description: 'When it last changed; null = not since the first report' }),
      items: Type.Array(ConfigItem),
    }),
    { description: 'By source. Earlier changes are the events of type agent_config_changed' },
  ),
})
export type InstanceConfig = Static<typeof InstanceConfig>

export const agentConfigEndpoints = {
  reportConfig: define({
    method: 'PUT',
    path: '/api/instances/:instanceId/config',
    access: access.agents,
    feature: 'instances',
    summary: 'Report the configuration of an agent by names and hashes; a change becomes agent_config_changed',
    params: InstanceParams,
    body: ReportedConfig,
    status: 200,
    reply: ConfigReported,
    failures: {
      404: 'Unknown instance: its first heartbeat registers it',
      429: `More than ${configLimits.sources} sources, too many reports or changes; retry after Retry-After seconds`,
    },
  }),
  getConfig: define({
    method: 'GET',
    path: '/api/instances/:instanceId/config',
    access: access.readers,
    teams: 'agent',
    feature: 'instances',
    summary: 'Get the configuration of an agent as it was last reported',
    params: InstanceParams,
    status: 200,
    reply: InstanceConfig,
    failures: { 404: 'Unknown instance' },
  }),
}
