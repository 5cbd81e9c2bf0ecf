/** What the address says of the bundle. */
export interface IncidentSearch {
  agent?: string
  /** ISO 8601. */
  from?: string
  to?: string
}
