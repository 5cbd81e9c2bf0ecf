/** Finds alerts that may need a person among any number of info alerts, which may include every tool call. */
export const alertsToHandle = (): string[] => [
  `create index alerts_to_handle on alerts (seq) where status <> 'resolved' and severity <> 'info'`,
]
