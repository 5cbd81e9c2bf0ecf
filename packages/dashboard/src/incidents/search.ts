/** Agent and range of the bundle in the address. */
export interface IncidentSearch {
  agent?: string
  /** ISO 8601. */
  from?: string
  to?: string
}
