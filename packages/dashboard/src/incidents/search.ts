import { instant, type SearchOf, searchParams, text } from '../data/search-params.ts'

/** Agent and range of the bundle. */
export const incidentSearch = searchParams({ agent: text, from: instant, to: instant })
export type IncidentSearch = SearchOf<typeof incidentSearch>
