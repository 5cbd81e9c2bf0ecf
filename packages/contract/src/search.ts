import type { Static } from 'typebox'
import { access, define } from './endpoint.ts'
import { choice, limits, nullable, Timestamp, UpTo } from './fields.ts'
import { Type } from './type.ts'

export const searchKinds = ['agent', 'alert', 'rule', 'policy', 'list', 'decoy', 'event', 'setting'] as const
export type SearchKind = (typeof searchKinds)[number]

export const defaultSearchHits = 8

const SearchQuery = Type.Object({
  q: Type.String({
    maxLength: limits.searchedText,
    description:
      'Words that must all match, in any order: words of an id, name or title, their beginnings, or with a typo (one in words of 4 letters or more, two from 8). Or the id of an event, or at least its first 8 characters. Empty: finds nothing, and prepares the next search',
  }),
  limit: Type.Optional(
    UpTo(limits.searchHits, `Hits of each kind, 1 to ${limits.searchHits}; default: ${defaultSearchHits}`),
  ),
})

const SearchHit = Type.Object({
  id: Type.String({
    description: 'The id of the agent, alert, rule, policy, decoy or event; the name of the list or setting',
  }),
  title: Type.String({
    description:
      'The name of the agent, the title of the alert, rule, policy or event, the path or kind of the decoy, the name of the list',
  }),
  detail: Type.String({
    description:
      'The tags of the agent, the label of the decoy, the mode of the rule or policy, the description of the list, the severity of the alert or event, the meaning of the setting',
  }),
  instance_id: nullable(Type.String({ description: 'The agent that an alert, a decoy or an event is about' })),
  seq: nullable(Type.Integer({ minimum: 1, description: 'The number of the event' })),
  at: nullable({ ...Timestamp, description: 'When the alert or event was stored' }),
})
export type SearchHit = Static<typeof SearchHit>

const SearchReply = Type.Object({
  groups: Type.Array(
    Type.Object({
      kind: choice(searchKinds),
      hits: Type.Array(SearchHit, { maxItems: limits.searchHits, description: 'The best first' }),
    }),
    { description: 'The kinds with hits, the one with the best hit first' },
  ),
  complete: Type.Boolean({
    description:
      'False while the names of 500 or more agents or decoys are read, the first second or two after a pause: until then agents are found by the beginning of their id, or by words without typos. Ask again. Also for a caller limited to a team of more than 50,000 agents: others of them are found by id alone',
  }),
})
export type SearchReply = Static<typeof SearchReply>

export const searchEndpoints = {
  search: define({
    method: 'GET',
    path: '/api/search',
    access: access.readers,
    teams: 'agents',
    feature: 'search',
    summary:
      'Find agents, decoys, rules, policies, lists, alerts and events by a few words, and settings with scope operator or admin; never values of decoys or settings',
    query: SearchQuery,
    status: 200,
    reply: SearchReply,
  }),
}
