import { instant, searchParams } from '../data/search-params.ts'

/** Time range of the charts. */
export const overviewSearch = searchParams({ from: instant, to: instant })
