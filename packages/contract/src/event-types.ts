/** Event types to which the service gives a meaning. Clients may use any other snake_case name. */
export const eventTypes = {
  toolCall: 'tool_call',
  modelAnswer: 'model_answer',
  sessionMetrics: 'session_metrics',
  injectionDetected: 'prompt_injection_detected',
  injectionBlocked: 'injection_blocked',
  policyViolation: 'policy_violation',
  egressBlocked: 'egress_blocked',
  toolBlocked: 'tool_blocked',
  policyObserved: 'policy_observed',
  modelRefused: 'model_refused',
  modelFailed: 'model_failed',
  permissionModeChanged: 'permission_mode_changed',
  toolServerConnection: 'tool_server_connection',
  honeypotTriggered: 'honeypot_triggered',
  honeypotIgnored: 'honeypot_ignored',
  decoySwept: 'decoy_swept',
  decoyRead: 'decoy_read',
  decoyCheckExhausted: 'decoy_check_exhausted',
  decoyConnectionsDropped: 'decoy_connections_dropped',
  anomalyDetected: 'anomaly_detected',
  anomalyEnded: 'anomaly_ended',
  instanceOffline: 'instance_offline',
  instanceRecovered: 'instance_recovered',
  instanceRestarted: 'instance_restarted',
  instanceClone: 'instance_clone',
  instanceCrashLoop: 'instance_crash_loop',
  instanceBlind: 'instance_blind',
  instanceReporting: 'instance_reporting',
  reportMismatch: 'report_mismatch',
  reportMismatchEnded: 'report_mismatch_ended',
  agentConfigChanged: 'agent_config_changed',
  parentIgnored: 'parent_ignored',
  instancesOffline: 'instances_offline',
  instancesRecovered: 'instances_recovered',
  drillOverdue: 'drill_overdue',
  drillAnswered: 'drill_answered',
  drillsOverdue: 'drills_overdue',
  drillsAnswered: 'drills_answered',
  eventsRemoved: 'events_removed',
  eventsLost: 'events_lost',
  activityWhileSuspended: 'activity_while_suspended',
  killUnconfirmed: 'kill_unconfirmed',
  childrenUnconfirmed: 'children_unconfirmed',
  supervisorIncomplete: 'supervisor_incomplete',
  supervisorSilent: 'supervisor_silent',
  modelCall: 'model_call',
  modelSecret: 'model_secret',
  budgetWarning: 'budget_warning',
  budgetUsedUp: 'budget_used_up',
  brakeEngaged: 'brake_engaged',
  brakeReleased: 'brake_released',
  suspensionSkipped: 'suspension_skipped',
  approvalRequested: 'approval_requested',
  approvalDecided: 'approval_decided',
  enforcementFailed: 'enforcement_failed',
  controlVersionMismatch: 'control_version_mismatch',
  quotaExceeded: 'quota_exceeded',
  identityMismatch: 'identity_mismatch',
  authProbing: 'auth_probing',
  adminKeySignIn: 'admin_key_sign_in',
  auditAltered: 'audit_altered',
  ruleMatched: 'rule_matched',
  ruleStateEvicted: 'rule_state_evicted',
  ruleFileInvalid: 'rule_file_invalid',
  policyFileInvalid: 'policy_file_invalid',
  chainTransactionFailed: 'chain_transaction_failed',
  chainTransactionStuck: 'chain_transaction_stuck',
  chainNonceRefused: 'chain_nonce_refused',
  chainUnavailable: 'chain_unavailable',
} as const

/** Event types that agents and their guards report. */
const reportedTypes: readonly string[] = [
  eventTypes.toolCall,
  eventTypes.modelAnswer,
  eventTypes.sessionMetrics,
  eventTypes.injectionDetected,
  eventTypes.injectionBlocked,
  eventTypes.policyViolation,
  eventTypes.egressBlocked,
  eventTypes.toolBlocked,
  eventTypes.policyObserved,
  eventTypes.modelRefused,
  eventTypes.modelFailed,
  eventTypes.permissionModeChanged,
  eventTypes.toolServerConnection,
]

/** Types that only the service itself reports: all others. From a caller they are only a claim. */
export const serviceEventTypes: readonly string[] = Object.values(eventTypes).filter(
  (type) => !reportedTypes.includes(type),
)

/** Types that an agent reports about its own stop. They do not count as activity while suspended, unless they name a tool. */
export const stopReportTypes: readonly string[] = [
  'agent_suspended',
  'agent_stopped',
  'sdk_events_dropped',
  eventTypes.controlVersionMismatch,
]

/** Source of the service's own events; refused from callers. */
export const serviceSource = 'wardline'

/** Tools that GET /api/status always lists with their counts. */
export const knownTools = ['web-search', 'file-read', 'http-request', 'shell-exec', 'email-send', 'code-exec'] as const
export type KnownTool = (typeof knownTools)[number]

/** Fields of an event's metadata that name its tool, the first one first. */
export const toolFields = ['toolName', 'tool', 'tool_name'] as const

/** Returns the tool named in an event's metadata. */
export function toolOf(metadata: Record<string, unknown> | null | undefined): string | null {
  const name = toolFields.map((field) => metadata?.[field]).find((value) => value !== undefined && value !== null)
  return typeof name === 'string' && name !== '' ? name : null
}

/** Whether an action was blocked, by the event's type or its metadata. */
export const isBlocked = (eventType: string, metadata: Record<string, unknown> | null | undefined): boolean =>
  eventType === eventTypes.injectionDetected || eventType.endsWith('_blocked') || metadata?.blocked === true
