export const decoyFilters = ['issued', 'planted', 'tripped', 'retired', 'keys', 'paths'] as const
export type DecoyFilter = (typeof decoyFilters)[number]
export interface DecoySearch {
  q?: string
  show?: DecoyFilter
  /** The id of the decoy in the drawer. */
  open?: string
  /** The preset in the dialog, or `new`. */
  plant?: string
  /** The instance to plant for. */
  agent?: string
}
