import type { Dialect } from '../database.ts'

/** The address that the service saw, beside the one that a report names. */
export const observedAddresses = ({ text }: Dialect['ddl']): string[] => [
  `alter table events add column observed_ip_address ${text}`,
]
