/** Filters of the list in the address. */
export interface ContainmentsSearch {
  /** The drill whose report is open. */
  drill?: string
}
