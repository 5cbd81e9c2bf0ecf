import type { Dialect } from '../database.ts'

/** Channels that an alert is meant for alone, as a JSON list of names; null = all. */
export const alertChannelsNamed = ({ text }: Dialect['ddl']): string[] => [
  `alter table alerts add column only_channels ${text}`,
]
