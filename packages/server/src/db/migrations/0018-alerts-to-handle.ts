/** Finds what may need a person, however many other alerts came since: machines may take every tool call as one. */
export const alertsToHandle = (): string[] => [
  `create index alerts_to_handle on alerts (seq) where status <> 'resolved' and severity <> 'info'`,
]
