import { mayActFor, type Principal } from '../../http/auth.ts'

/** Stored in place of an instance id for a path that is a decoy for every agent. No id contains this character. */
export const everyAgent = '*'

/** The instance of a decoy as the API names it: null for every agent. */
export const instanceOf = (instanceId: string): string | null => (instanceId === everyAgent ? null : instanceId)

type Scoped = { instance_id: string }

/** Whether a caller can trip a decoy path. Paths belong to one host, unless the decoy is for every agent. */
export const mayTrip = (principal: Principal, { instance_id }: Scoped): boolean =>
  instance_id === everyAgent || mayActFor(principal, instance_id)

/** Whether an agent other than the one for which the decoy was planted touched it. */
export const isOutside = (reporter: string | null | undefined, { instance_id }: Scoped): boolean =>
  reporter !== null && reporter !== undefined && instance_id !== everyAgent && reporter !== instance_id
