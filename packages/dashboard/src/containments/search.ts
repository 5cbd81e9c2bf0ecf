/** What the address says of the list. */
export interface ContainmentsSearch {
  /** The drill whose report is open. */
  drill?: string
}
