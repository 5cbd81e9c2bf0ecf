import type { Static, TSchema } from 'typebox'
import { agentConfigEndpoints } from './agent-configs.ts'
import { noteEndpoints } from './agent-notes.ts'
import { assigneeEndpoints } from './alert-assignees.ts'
import { channelEndpoints } from './alert-channels.ts'
import { commentEndpoints } from './alert-comments.ts'
import { messageEndpoints } from './alert-messages.ts'
import { alertEndpoints } from './alerts.ts'
import { approvalEndpoints } from './approvals.ts'
import { auditEndpoints } from './audit.ts'
import { baselineEndpoints } from './baselines.ts'
import { brakeEndpoints } from './brake.ts'
import { chainEndpoints } from './chain.ts'
import { commandLoginEndpoints } from './command-logins.ts'
import { containmentsEndpoints } from './containments.ts'
import { killSwitchEndpoints } from './control.ts'
import { downloadEndpoints } from './downloads.ts'
import { drillEndpoints } from './drills.ts'
import type { Endpoint } from './endpoint.ts'
import { enforcementEndpoints } from './enforcement.ts'
import { eventEndpoints } from './events.ts'
import { fleetEndpoints } from './fleet.ts'
import { gatewayEndpoints } from './gateway.ts'
import { honeypotEndpoints } from './honeypots.ts'
import { incidentEndpoints } from './incidents.ts'
import { instanceEndpoints } from './instances.ts'
import { keyEndpoints } from './keys.ts'
import { mailChoiceEndpoints } from './mail-choices.ts'
import { operationEndpoints } from './operations.ts'
import { passkeyEndpoints } from './passkeys.ts'
import { peopleEndpoints } from './people.ts'
import { policyEndpoints } from './policies.ts'
import { ruleExplanationEndpoints } from './rule-explanations.ts'
import { listEndpoints } from './rule-lists.ts'
import { searchEndpoints } from './search.ts'
import { statusEndpoints } from './status.ts'
import { ruleEndpoints } from './stored-rules.ts'
import { streamEndpoints } from './stream.ts'
import { suspensionEndpoints } from './suspensions.ts'
import { systemEndpoints } from './system.ts'
import { telemetryEndpoints } from './telemetry.ts'
import { toolServerEndpoints } from './tool-servers.ts'
import { trustEndpoints } from './trust.ts'
import { viewEndpoints } from './views.ts'

/** The whole HTTP API. Routing, validation, authorisation, OpenAPI and the client all use this table. */
export const endpoints = {
  ...instanceEndpoints,
  ...noteEndpoints,
  ...agentConfigEndpoints,
  ...toolServerEndpoints,
  ...fleetEndpoints,
  ...eventEndpoints,
  ...telemetryEndpoints,
  ...baselineEndpoints,
  ...killSwitchEndpoints,
  ...containmentsEndpoints,
  ...drillEndpoints,
  ...suspensionEndpoints,
  ...brakeEndpoints,
  ...enforcementEndpoints,
  ...gatewayEndpoints,
  ...policyEndpoints,
  ...approvalEndpoints,
  ...ruleEndpoints,
  ...ruleExplanationEndpoints,
  ...listEndpoints,
  ...statusEndpoints,
  ...trustEndpoints,
  ...chainEndpoints,
  ...streamEndpoints,
  ...honeypotEndpoints,
  ...keyEndpoints,
  ...peopleEndpoints,
  ...commandLoginEndpoints,
  ...passkeyEndpoints,
  ...mailChoiceEndpoints,
  ...auditEndpoints,
  ...incidentEndpoints,
  ...alertEndpoints,
  ...commentEndpoints,
  ...assigneeEndpoints,
  ...messageEndpoints,
  ...channelEndpoints,
  ...viewEndpoints,
  ...searchEndpoints,
  ...downloadEndpoints,
  ...systemEndpoints,
  ...operationEndpoints,
} as const satisfies Record<string, Endpoint>

export type EndpointName = keyof typeof endpoints

type Part<E, Key extends string> = E extends { [K in Key]: infer Schema extends TSchema } ? Static<Schema> : undefined
export type ParamsOf<Name extends EndpointName> = Part<(typeof endpoints)[Name], 'params'>
export type QueryOf<Name extends EndpointName> = Part<(typeof endpoints)[Name], 'query'>
export type BodyOf<Name extends EndpointName> = Part<(typeof endpoints)[Name], 'body'>
export type ReplyOf<Name extends EndpointName> = Part<(typeof endpoints)[Name], 'reply'>
