export const keyFilters = ['ended'] as const
export interface KeySearch {
  q?: string
  show?: (typeof keyFilters)[number]
  /** The dialog for a new key is open. */
  create?: true
}
