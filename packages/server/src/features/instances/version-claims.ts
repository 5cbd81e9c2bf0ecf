import { eventTypes } from '@wardline/contract'
import type { CountedReports } from '../events/counted-reports.ts'

/** An agent reports that it applied a control version that this service never issued. */
export interface VersionClaim {
  instanceId: string
  claimed: number
  version: number
}

/**
 * Maximum lead of a claimed version that the service follows. A restored backup lags by the kills of some days; a forged
 * claim must not exhaust the integers that JavaScript represents exactly.
 */
const maxLead = 1_000_000
const maxFollowed = 2 ** 52

/**
 * Returns the version of the next kill or resume: above the current version, and above a claimed version, up to which the
 * agent ignores messages.
 */
export function nextVersion(version: number, claimed: number | null): number {
  const follows = claimed !== null && claimed > version && claimed - version <= maxLead && claimed < maxFollowed
  return (follows ? claimed : version) + 1
}

/** Reports an agent that is ahead, at most once a minute per instance, and a limited number by name per key. */
export function reportClaim(
  reports: Pick<CountedReports, 'note'>,
  { instanceId, claimed, version }: VersionClaim,
  keyId: string,
): void {
  reports.note({ kind: eventTypes.controlVersionMismatch, owner: keyId, name: instanceId }, (count) => ({
    severity: 'critical',
    event_type: eventTypes.controlVersionMismatch,
    description:
      `The agent reports control version ${claimed}; the newest one issued is ${version}. It received a forged ` +
      'message, or the database was restored to an older state. The next kill or resume gets a version above both.',
    instance_id: instanceId,
    metadata: { claimed_version: claimed, version, occurrences: count },
  }))
}
