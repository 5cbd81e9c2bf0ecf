import { oneOf, type SearchOf, searchParams, text } from '../data/search-params.ts'

export const peopleSearch = searchParams({
  view: oneOf(['roles', 'sign-in']),
  q: text,
  /** The id of the person in the drawer. */
  person: text,
})
export type PeopleSearch = SearchOf<typeof peopleSearch>
