import type { Sender } from './channel.ts'

/** This deployment, for receivers that keep a host with what they are told: fits a host name of RFC 1123. */
export const reporterName = ({ deployment }: Sender): string => `wardline-${deployment}`

/** For the header of that name. */
export const userAgent = ({ version }: Sender): string => `Wardline/${version}`
