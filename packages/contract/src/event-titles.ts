import { alertTypes } from './alerts.ts'
import { eventTypes } from './event-types.ts'
import type { EventRow } from './events.ts'
import type { Problem } from './status.ts'
import { telemetrySource } from './telemetry.ts'

const anyAgent = 'An unnamed agent'

/** Titles of what the service itself reports. `who` is the instance id. */
const ownTitles: Record<string, (who: string, isNamed: boolean) => string> = {
  [eventTypes.honeypotTriggered]: (who, isNamed) => (isNamed ? `${who} used a decoy` : 'A decoy was used'),
  [eventTypes.honeypotIgnored]: (who) => `${who} touched a decoy with an ignored tool`,
  [eventTypes.decoySwept]: (who) => `${who} read a folder that contains a decoy`,
  [eventTypes.decoyRead]: (who) => `${who} read a decoy key`,
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
  [eventTypes.reportMismatch]: (who, isNamed) =>
    `${isNamed ? who : 'Many agents'}: calls that only one witness reported`,
  [eventTypes.reportMismatchEnded]: (who, isNamed) => `${isNamed ? who : 'Many agents'}: the report mismatch ended`,
  [eventTypes.agentConfigChanged]: (who, isNamed) => `${isNamed ? who : 'Many agents'}: the configuration changed`,
  [eventTypes.parentIgnored]: (who) => `${who} names a parent that it cannot have`,
  [eventTypes.instancesOffline]: () => 'Many more agents are silent',
  [eventTypes.instancesRecovered]: () => 'Many more agents are back',
  [eventTypes.drillOverdue]: (who) => `${who} does not answer drills`,
  [eventTypes.drillAnswered]: (who) => `${who} answers drills again`,
  [eventTypes.drillsOverdue]: () => 'Many agents do not answer drills',
  [eventTypes.drillsAnswered]: () => 'All agents answer drills again',
  [eventTypes.eventsRemoved]: () => 'Events were removed to limit the size of the database',
  [eventTypes.eventsLost]: () => 'The database lost events that it had confirmed',
  [eventTypes.activityWhileSuspended]: (who) => `${who} is active although suspended`,
  [eventTypes.modelCall]: (who) => `${who} called a model`,
  [eventTypes.modelSecret]: (who) => `${who} sent a secret to a model, or received one`,
  [eventTypes.budgetWarning]: () => 'A budget for models is almost used up',
  [eventTypes.budgetUsedUp]: () => 'A budget for models is used up: calls are refused',
  [eventTypes.supervisorIncomplete]: (who) => `${who} has processes that its supervisor cannot hold`,
  [eventTypes.supervisorSilent]: (who) => `The supervisor of ${who} does not answer drills`,
  [eventTypes.killUnconfirmed]: (who) => `${who} has not confirmed its suspension`,
  [eventTypes.childrenUnconfirmed]: (who, isNamed) =>
    isNamed
      ? `Agents below ${who} have not confirmed that they stopped`
      : 'Agents below several parents have not confirmed that they stopped',
  [eventTypes.brakeEngaged]: () => 'The brake is engaged: nothing is suspended automatically',
  [eventTypes.brakeReleased]: () => 'The brake was released: agents are suspended automatically again',
  [eventTypes.suspensionSkipped]: () => 'No agent was suspended after a breach',
  [eventTypes.approvalRequested]: (who) => `${who} waits for an approval`,
  [eventTypes.approvalDecided]: (who) => `A call of ${who} was decided`,
  [eventTypes.enforcementFailed]: (who) => `An enforcement point failed for ${who}`,
  [eventTypes.controlVersionMismatch]: (who) => `${who} claims a control version that was never issued`,
  [eventTypes.quotaExceeded]: () => 'A key exceeded its quotas',
  [eventTypes.identityMismatch]: (who) => `A key of another agent was used for ${who}`,
  [eventTypes.authProbing]: () => 'One address tried many invalid keys',
  [eventTypes.adminKeySignIn]: () => 'The local admin key opened a session',
  [eventTypes.auditAltered]: () => 'The audit log was altered',
  [eventTypes.ruleMatched]: (who, isNamed) => (isNamed ? `${who} matched a rule` : 'A rule matched'),
  [eventTypes.ruleStateEvicted]: () => 'Rules dropped groups: too many to track',
  [eventTypes.ruleFileInvalid]: () => 'A rule file is invalid',
  [eventTypes.policyFileInvalid]: () => 'A policy file is invalid',
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

/** Titles about several agents, where that of one has a verb in the singular. `who` is such as `12 agents`. */
const ownTitlesOfMany: Record<string, (who: string) => string> = {
  [eventTypes.anomalyDetected]: (who) => `${who} behave unusually`,
  [eventTypes.anomalyEnded]: (who) => `${who} behave as usual again`,
  [eventTypes.instanceOffline]: (who) => `${who} are silent`,
  [eventTypes.instanceRecovered]: (who) => `${who} are back`,
  [eventTypes.instanceClone]: (who) => `${who} share their ids with others`,
  [eventTypes.instanceCrashLoop]: (who) => `${who} are in restart loops`,
  [eventTypes.instanceReporting]: (who) => `${who} report again`,
  [eventTypes.drillOverdue]: (who) => `${who} do not answer drills`,
  [eventTypes.drillAnswered]: (who) => `${who} answer drills again`,
  [eventTypes.activityWhileSuspended]: (who) => `${who} are active although suspended`,
  [eventTypes.approvalRequested]: (who) => `${who} wait for approvals`,
  [eventTypes.approvalDecided]: (who) => `Calls of ${who} were decided`,
  [eventTypes.supervisorIncomplete]: (who) => `${who} have processes that their supervisors cannot hold`,
  [eventTypes.supervisorSilent]: (who) => `Supervisors of ${who} do not answer drills`,
  [eventTypes.killUnconfirmed]: (who) => `${who} have not confirmed their suspension`,
  [eventTypes.controlVersionMismatch]: (who) => `${who} claim control versions that were never issued`,
  [eventTypes.identityMismatch]: (who) => `Keys of other agents were used for ${who}`,
}

/** What agents and their guards report most often, as nouns: the service did not verify it. */
const reportedNouns: Record<string, string> = {
  [eventTypes.toolCall]: 'a tool call',
  [eventTypes.modelAnswer]: 'an answer',
  [eventTypes.sessionMetrics]: 'metrics',
  [eventTypes.injectionDetected]: 'a prompt injection',
  [eventTypes.injectionBlocked]: 'a blocked prompt injection',
  [eventTypes.policyViolation]: 'a policy violation',
  [eventTypes.egressBlocked]: 'a blocked connection',
  [eventTypes.toolBlocked]: 'a blocked tool call',
  [eventTypes.policyObserved]: 'what a policy would have done',
  [eventTypes.modelRefused]: 'a refusal of its model',
  [eventTypes.modelFailed]: 'a failed call of its model',
  [eventTypes.permissionModeChanged]: 'a change of its permission mode',
  [eventTypes.toolServerConnection]: 'a connection to a tool server',
}

const nounOf = (eventType: string): string | undefined =>
  Object.hasOwn(reportedNouns, eventType) ? reportedNouns[eventType] : undefined

/** Types with a meaning for the service: from a caller they are only a claim. */
export const isServiceType = (eventType: string): boolean => Object.hasOwn(ownTitles, eventType)

/**
 * Returns the title of an event or alert, for people: fixed words, the instance id and the type only, never a text of
 * the reporter. The dashboard, messages, the command line, exports and the guide show the same.
 */
export function titleOf({
  event_type,
  by_service,
  instance_id,
  source,
}: Pick<EventRow, 'event_type' | 'by_service' | 'instance_id' | 'source'>): string {
  const who = instance_id ?? anyAgent
  const own = isServiceType(event_type) ? ownTitles[event_type] : undefined
  if (by_service) return own ? own(who, instance_id !== null) : `${who}: ${event_type}`
  const what = nounOf(event_type) ?? event_type
  // A caller may use any type, so only reports by the service get its titles.
  const claim = own ? ', claimed by a client' : ''
  if (instance_id === null || source === instance_id) return `${who} reports ${what}${claim}`
  const verb = claim === '' ? 'reported' : 'claimed'
  return `${who}: ${what}, ${verb} by ${source === telemetrySource ? 'its telemetry' : 'another source'}`
}

/**
 * Returns the title of a problem, which may be about many agents. `isMore`: there are more agents than were counted.
 */
export function titleOfProblem(
  problem: Pick<Problem, 'event_type' | 'by_service' | 'types' | 'agents' | 'instances' | 'source'>,
  isMore = false,
): string {
  const { event_type, by_service, types, agents, instances, source } = problem
  const instance_id = instances[0] ?? null
  if (types > 1) return `${instance_id ?? anyAgent} reports ${types.toLocaleString('en')} types of events`
  if (agents <= 1) return titleOf({ event_type, by_service, instance_id, source: source ?? instance_id ?? '' })
  const who = `${isMore ? 'more than ' : ''}${agents.toLocaleString('en')} agents`
  const own = isServiceType(event_type) ? (ownTitlesOfMany[event_type] ?? ownTitles[event_type]) : undefined
  if (own && by_service) return capitalized(own(who, true))
  const noun = nounOf(event_type)
  return `${noun === undefined ? event_type : capitalized(noun)} on ${who}${own ? ', claimed by clients' : ''}`
}

const capitalized = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)

/** Formats `{"tool_calls_per_5min":41}` as `tool calls per 5min 41`; undefined unless it is an object of numbers. */
function metricsText(description: string): string | undefined {
  try {
    const metrics = Object.entries(JSON.parse(description) ?? {})
    if (metrics.length === 0 || !metrics.every(([, value]) => typeof value === 'number')) return undefined
    return metrics
      .map(
        ([name, value]) =>
          `${name.replaceAll('_', ' ')} ${(value as number).toLocaleString('en', { maximumFractionDigits: 2 })}`,
      )
      .join(', ')
  } catch {
    return undefined
  }
}

/** Returns the description of an event for people: metrics in words instead of JSON. It is a text of the reporter. */
export const descriptionOf = ({ event_type, description }: Pick<EventRow, 'event_type' | 'description'>): string =>
  (event_type === eventTypes.sessionMetrics && metricsText(description)) || description
