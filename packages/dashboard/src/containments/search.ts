/** State of the screen in the address. */
export interface ContainmentsSearch {
  /** The drill whose report is open. */
  drill?: string
}
