import { type FleetSort, fleetSorts, fleetStatuses, type Witness } from '@wardline/contract'
import { flag, oneOf, type SearchOf, searchParams, text, texts } from '../data/search-params.ts'
import { witnessNames } from '../data/witnesses.ts'

export const statusFilters = fleetStatuses
export const witnessFilters = Object.keys(witnessNames) as Witness[]
export type SortKey = FleetSort

/** More groups than anyone reads. */
const maxClosed = 200

/** Filters of the list. */
export const fleetSearch = searchParams({
  tab: oneOf(['servers'] as const),
  status: oneOf(statusFilters),
  q: text,
  heard: oneOf(witnessFilters),
  /** Only agents whose configuration names this tool server; links of the page of an agent set it. */
  server: text,
  /** Only agents that this one started; links of its page set it. */
  parent: text,
  sort: oneOf(fleetSorts),
  down: flag,
  /** The list begins at this id; links of the fleet strip's marks set it. */
  from: text,
  /** Groups the list by all tags, or by the values of tags such as `env:production`. */
  group: text,
  /** Names of collapsed groups; the empty name is the group of agents without a tag. */
  closed: texts(maxClosed),
  /** A saved view. */
  view: text,
})
export type FleetSearch = SearchOf<typeof fleetSearch>
