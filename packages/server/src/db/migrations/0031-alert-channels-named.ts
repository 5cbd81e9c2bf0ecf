import type { Dialect } from '../database.ts'

/** Channels to which an alert is restricted, as a JSON list of names; null = all. */
export const alertChannelsNamed = ({ text }: Dialect['ddl']): string[] => [
  `alter table alerts add column only_channels ${text}`,
]
