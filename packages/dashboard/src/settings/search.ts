import { searchParams, text } from '../data/search-params.ts'

export const settingsSearch = searchParams({
  /** The name of the only setting that is listed. */
  setting: text,
})
