import { alertTypes } from './alerts.ts'
import { eventTypes } from './event-types.ts'
import type { EventRow } from './events.ts'

const anyAgent = 'An unnamed agent'

/** Titles of what the service itself reports. `who` is the instance id. */
const ownTitles: Record<string, (who: string, isNamed: boolean) => string> = {
  // Agents are identified by their keys, so a hit without an agent is a fetched decoy URL.
  [eventTypes.honeypotTriggered]: (who, isNamed) => (isNamed ? `${who} used a decoy` : 'A decoy URL was fetched'),
  [eventTypes.honeypotIgnored]: (who) => `${who} touched a decoy with an ignored tool`,
  [eventTypes.decoySwept]: (who) => `${who} read a folder that contains a decoy`,
  [eventTypes.decoyCheckExhausted]: (who) => `A text of ${who} was only partly checked for decoys`,
  [eventTypes.decoyConnectionsDropped]: () => 'The port of the decoy URLs is flooded',
  [eventTypes.anomalyDetected]: (who) => `${who} behaves unusually`,
  [eventTypes.anomalyEnded]: (who) => `${who} behaves as usual again`,
  [eventTypes.instanceOffline]: (who) => `${who} is silent`,
  [eventTypes.instanceRecovered]: (who) => `${who} is back`,
  [eventTypes.instanceRestarted]: (who) => `${who} restarted`,
  [eventTypes.instanceClone]: (who) => `Two agents use the id ${who}`,
  [eventTypes.instanceCrashLoop]: (who) => `${who} is in a restart loop`,
  [eventTypes.instanceBlind]: (who, isNamed) => `${isNamed ? who : 'Many agents'} stopped reporting`,
  [eventTypes.instanceReporting]: (who, isNamed) => (isNamed ? `${who} reports again` : 'All agents report again'),
  [eventTypes.instancesOffline]: () => 'Many more agents are silent',
  [eventTypes.instancesRecovered]: () => 'Many more agents are back',
  [eventTypes.drillOverdue]: (who) => `${who} does not answer drills`,
  [eventTypes.drillAnswered]: (who) => `${who} answers drills again`,
  [eventTypes.drillsOverdue]: () => 'Many agents do not answer drills',
  [eventTypes.drillsAnswered]: () => 'All agents answer drills again',
  [eventTypes.eventsRemoved]: () => 'Events were removed to limit the size of the database',
  [eventTypes.activityWhileSuspended]: (who) => `${who} is active although suspended`,
  [eventTypes.killUnconfirmed]: (who) => `${who} has not confirmed its suspension`,
  [eventTypes.brakeEngaged]: () => 'The brake is engaged: nothing is suspended automatically',
  [eventTypes.brakeReleased]: () => 'The brake was released: agents are suspended automatically again',
  [eventTypes.suspensionSkipped]: () => 'No agent was suspended after a breach',
  [eventTypes.enforcementFailed]: (who) => `An enforcement point failed for ${who}`,
  [eventTypes.controlVersionMismatch]: (who) => `${who} claims a control version that was never issued`,
  [eventTypes.quotaExceeded]: () => 'A key exceeded its quotas',
  [eventTypes.identityMismatch]: (who) => `A key of another agent was used for ${who}`,
  [eventTypes.authProbing]: () => 'One address tried many invalid keys',
  [eventTypes.auditAltered]: () => 'The audit log was altered',
  [eventTypes.ruleMatched]: (who, isNamed) => (isNamed ? `${who} matched a rule` : 'A rule matched'),
  [eventTypes.ruleStateEvicted]: () => 'Rules dropped groups: too many to track',
  [eventTypes.ruleFileInvalid]: () => 'A rule file is invalid',
  [eventTypes.chainTransactionFailed]: () => 'A chain transaction failed',
  [eventTypes.chainTransactionStuck]: () => 'A chain transaction has been unconfirmed for an hour',
  [eventTypes.chainNonceRefused]: () => 'The chain account was used by another sender',
  [eventTypes.chainUnavailable]: () => 'No transaction can be sent to the chain',
  [alertTypes.instanceSuspended]: (who) => `${who} was suspended`,
  [alertTypes.instanceResumed]: (who) => `${who} was resumed`,
  [alertTypes.killConfirmed]: (who) => `${who} confirmed its suspension`,
  [alertTypes.containmentStarted]: () => 'A containment started',
  [alertTypes.containmentCompleted]: () => 'A containment is complete',
  [alertTypes.containmentIncomplete]: () => 'Some agents did not confirm a containment',
  [alertTypes.fleetOutage]: () => 'Many agents went silent together',
  [alertTypes.fleetRecovered]: () => 'The agents that went silent together are back',
  [alertTypes.channelFailing]: () => 'An alert channel is failing',
  [alertTypes.channelRecovered]: () => 'All alert channels work again',
  [alertTypes.alertsSummarized]: (who, isNamed) => `Further alerts ${isNamed ? `of ${who} ` : ''}were summarized`,
  [alertTypes.alertingChanged]: () => 'Alert delivery was changed',
  [alertTypes.protectionChanged]: () => 'Protection was reduced',
}

/** Types with a meaning for the service: from a caller they are only a claim. */
export const isServiceType = (eventType: string): boolean => Object.hasOwn(ownTitles, eventType)

/**
 * Returns the title of an event or alert, for people: fixed words, the instance id and the type only, never a text of
 * the reporter. The dashboard, messages, the command line and the guide show the same.
 */
export function titleOf({
  event_type,
  by_service,
  instance_id,
  source,
}: Pick<EventRow, 'event_type' | 'by_service' | 'instance_id' | 'source'>): string {
  const who = instance_id ?? anyAgent
  const own = isServiceType(event_type) ? ownTitles[event_type] : undefined
  if (own && by_service) return own(who, instance_id !== null)
  // A caller may use any type, so only reports by the service get its titles.
  const claim = own ? ', claimed by a client' : ''
  return instance_id === null || by_service || source === instance_id
    ? `${who} reports ${event_type}${claim}`
    : `${who}: ${event_type}, ${claim === '' ? 'reported' : 'claimed'} by another source`
}
