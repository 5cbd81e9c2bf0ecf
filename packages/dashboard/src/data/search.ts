import { queryOptions } from '@tanstack/react-query'
import { limits, type ReplyOf } from '@wardline/contract'
import { askedWords, textCost } from '@wardline/text/word-match'
import { call } from './client.ts'
import { queryKeys } from './query-keys.ts'

type Found = ReplyOf<'search'>
export type SearchKind = Found['groups'][number]['kind']
export type SearchHit = Found['groups'][number]['hits'][number]

/** Until the next question while the service still reads names, which takes a second or two. */
const incompleteMs = 300

/** The hits of the text before that also match the new one, so that the list does not jump with every letter. */
function stillFound(found: Found | undefined, text: string): Found | undefined {
  const asked = askedWords(text)
  const groups = found?.groups.map(({ kind, hits }) => ({
    kind,
    hits: hits.filter((hit) => textCost(asked, `${hit.id} ${hit.title} ${hit.detail}`) !== undefined),
  }))
  return found && groups && { ...found, groups: groups.filter(({ hits }) => hits.length > 0) }
}

/** What the service finds. An empty text finds nothing, and lets the service prepare for the next one. */
export function searchQuery(text: string) {
  const q = text.slice(0, limits.searchedText)
  return queryOptions({
    queryKey: queryKeys.search(q),
    queryFn: ({ signal }) => call('search', { query: { q }, signal }),
    retry: false,
    refetchInterval: ({ state }) => (state.data?.complete === false ? incompleteMs : false),
    placeholderData: (before) => stillFound(before, q),
  })
}
