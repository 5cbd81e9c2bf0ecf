import { createRequire } from 'node:module'

type Prometheus = typeof import('prom-client')
const require = createRequire(import.meta.url)

/** Loads only parts of prom-client: the whole package also loads OpenTelemetry and node:cluster, which takes 45 ms. */
const part = <Name extends 'Counter' | 'Gauge' | 'Histogram' | 'Registry'>(name: Name): Prometheus[Name] =>
  require(`prom-client/lib/${name.toLowerCase()}.js`)

const Counter = part('Counter')
const Gauge = part('Gauge')
const Histogram = part('Histogram')
const Registry = part('Registry')

/**
 * Creates all metrics of /metrics. Labels have fixed sets of values, or those of a file of the operator: ids would let callers exhaust
 * memory.
 */
export function createMetrics() {
  const registry = new Registry()
  const registers = [registry]
  return {
    registry,
    requests: new Counter({
      name: 'wardline_http_requests_total',
      help: 'Answers by endpoint and status class',
      labelNames: ['endpoint', 'status'],
      registers,
    }),
    events: new Counter({
      name: 'wardline_events_total',
      help: 'Events stored, by severity',
      labelNames: ['severity'],
      registers,
    }),
    commitSeconds: new Histogram({
      name: 'wardline_commit_seconds',
      help: 'Time of one group commit, by queue',
      labelNames: ['queue'],
      buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2],
      registers,
    }),
    commitRows: new Histogram({
      name: 'wardline_commit_rows',
      help: 'Rows of one group commit, by queue',
      labelNames: ['queue'],
      buckets: [1, 4, 16, 64, 256, 1024],
      registers,
    }),
    enforcementAttempts: new Counter({
      name: 'wardline_enforcement_attempts_total',
      help: 'Attempts to call enforcement points: confirmed, retried later, or failed for good',
      labelNames: ['result'],
      registers,
    }),
    ruleFirings: new Counter({
      name: 'wardline_rule_firings_total',
      help: 'Firings of rules, by mode of the rule',
      labelNames: ['mode'],
      registers,
    }),
    suppressedFirings: new Counter({
      name: 'wardline_rule_firings_suppressed_total',
      help: 'Firings of rules that were counted, not stored: beyond those of one agent in a minute, by mode of the rule',
      labelNames: ['mode'],
      registers,
    }),
    rulesLag: new Gauge({
      name: 'wardline_rules_lag_events',
      help: 'Stored events that the rules have not processed yet',
      registers,
    }),
    queueRejects: new Counter({
      name: 'wardline_queue_rejects_total',
      help: 'Requests answered 503 because a queue was full',
      labelNames: ['queue'],
      registers,
    }),
    quotaRefusals: new Counter({
      name: 'wardline_quota_refusals_total',
      help: 'Events, checks, registrations and streams answered 429 because a quota of their key was exceeded, by quota',
      labelNames: ['quota'],
      registers,
    }),
    streamClients: new Gauge({
      name: 'wardline_stream_clients',
      help: 'Open streams, by kind',
      labelNames: ['kind'],
      registers,
    }),
    streamCuts: new Counter({
      name: 'wardline_stream_cuts_total',
      help: 'Streams closed by the service, by reason',
      labelNames: ['reason'],
      registers,
    }),
    connectionsRefused: new Counter({
      name: 'wardline_connections_refused_total',
      help: 'Connections beyond a cap, by reason (address = served with a valid key only, or closed; total = closed)',
      labelNames: ['reason'],
      registers,
    }),
    controlChanges: new Counter({
      name: 'wardline_control_changes_total',
      help: 'Kills and resumes',
      labelNames: ['action'],
      registers,
    }),
    killConfirmSeconds: new Histogram({
      name: 'wardline_kill_confirm_seconds',
      help: 'Time from a kill to the confirmation by the agent',
      buckets: [0.05, 0.1, 0.25, 0.5, 1, 5, 15, 30, 60, 120],
      registers,
    }),
    automaticSuspensions: new Counter({
      name: 'wardline_automatic_suspensions_total',
      help: 'Breaches that suspend automatically, by result: suspended, taken_over from a timed suspension, extended, already_suspended, refused by the brake, skipped without a known instance',
      labelNames: ['result'],
      registers,
    }),
    approvals: new Counter({
      name: 'wardline_approvals_total',
      help: 'Approvals by result: requested, approved, denied, expired, granted = taken by a call, allowed = granted under an allowance',
      labelNames: ['result'],
      registers,
    }),
    drills: new Counter({
      name: 'wardline_drills_total',
      help: 'Drills by result: asked, answered, refused = an answer with a wrong, used or expired nonce',
      labelNames: ['result'],
      registers,
    }),
    suspensionStageSeconds: new Histogram({
      name: 'wardline_suspension_stage_seconds',
      help: 'Time from the request of a suspension to each of its stages, as seen by this process',
      labelNames: ['stage'],
      buckets: [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 5, 15, 30, 60, 300],
      registers,
    }),
    gatewayCalls: new Counter({
      name: 'wardline_gateway_calls_total',
      help: 'Calls of models, by upstream and outcome: complete, upstream_error = the provider refused it, broken = it does not answer or broke off, left by the client, cut = the agent was suspended meanwhile, suspended = refused for that, refused for another reason, unavailable = it could not be checked',
      labelNames: ['upstream', 'outcome'],
      registers,
    }),
    gatewayTokens: new Counter({
      name: 'wardline_gateway_tokens_total',
      help: 'Tokens that providers counted, by upstream, price that the model has in the file (none = it has none) and direction (input, output)',
      labelNames: ['upstream', 'price', 'direction'],
      registers,
    }),
    gatewayCost: new Counter({
      name: 'wardline_gateway_cost_usd_total',
      help: 'Cost of calls of models that have a price, by upstream and price',
      labelNames: ['upstream', 'price'],
      registers,
    }),
    gatewayOpenCalls: new Gauge({
      name: 'wardline_gateway_open_calls',
      help: 'Open calls of models, by upstream; most are streams',
      labelNames: ['upstream'],
      registers,
    }),
    gatewayFirstByteSeconds: new Histogram({
      name: 'wardline_gateway_first_byte_seconds',
      help: 'Time from the request of a call to the first byte of the body of its answer, by upstream',
      labelNames: ['upstream'],
      // A model may think for minutes.
      buckets: [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300],
      registers,
    }),
    budgetRefusals: new Counter({
      name: 'wardline_gateway_budget_refusals_total',
      help: 'Calls of models for which a budget had no room, by budget',
      labelNames: ['budget'],
      registers,
    }),
    decoyHits: new Counter({
      name: 'wardline_decoy_hits_total',
      help: 'Decoys touched, by type',
      labelNames: ['type'],
      registers,
    }),
    decoyFetches: new Counter({
      name: 'wardline_decoy_fetches_total',
      help: 'Requests to WARDLINE_DECOY_PORT, by outcome: a decoy URL, a decoy URL beyond its hits of a minute, or any other address',
      labelNames: ['outcome'],
      registers,
    }),
    decoyConnectionsDropped: new Counter({
      name: 'wardline_decoy_connections_dropped_total',
      help: 'Connections to WARDLINE_DECOY_PORT closed before they had sent a request, by reason (address, total = a limit was reached; timeout)',
      labelNames: ['reason'],
      registers,
    }),
    decoyChecksExhausted: new Counter({
      name: 'wardline_decoy_checks_exhausted_total',
      help: 'Checks that reached their work limit and were answered from the part that was searched, by kind',
      labelNames: ['kind'],
      registers,
    }),
    authFailures: new Counter({
      name: 'wardline_auth_failures_total',
      help: 'Refused keys, by reason',
      labelNames: ['reason'],
      registers,
    }),
    backplaneUp: new Gauge({
      name: 'wardline_backplane_up',
      help: '1 while the backplane is connected and subscribed; absent without one',
      registers,
    }),
    backplaneReconnects: new Counter({
      name: 'wardline_backplane_reconnects_total',
      help: 'Reconnections of the backplane after it was unavailable',
      registers,
    }),
    backplaneDropped: new Counter({
      name: 'wardline_backplane_publishes_dropped_total',
      help: 'Messages that the backplane refused, by channel; receivers read the database instead',
      labelNames: ['channel'],
      registers,
    }),
    backplaneRefused: new Counter({
      name: 'wardline_backplane_messages_refused_total',
      help: 'Messages on the backplane that changed nothing, by channel and reason',
      labelNames: ['channel', 'reason'],
      registers,
    }),
    alertAttempts: new Counter({
      name: 'wardline_alert_tries_total',
      help: 'Attempts to deliver an alert message, by type of channel and result (delivered, failed = will be retried, dead = given up)',
      labelNames: ['channel', 'result'],
      registers,
    }),
    alertAttemptSeconds: new Histogram({
      name: 'wardline_alert_try_seconds',
      help: 'Response time of receivers, by type of channel',
      labelNames: ['channel'],
      buckets: [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15],
      registers,
    }),
    alertDelaySeconds: new Histogram({
      name: 'wardline_alert_delay_seconds',
      help: 'Time from the creation of a message to its delivery, by type of channel',
      labelNames: ['channel'],
      buckets: [0.05, 0.1, 0.25, 0.5, 1, 5, 30, 300, 3600, 86400],
      registers,
    }),
    alertMessages: new Gauge({
      name: 'wardline_alert_messages',
      help: 'Waiting and undelivered alert messages, by type of channel and state, as of the last minute',
      labelNames: ['channel', 'state'],
      registers,
    }),
    indexRepairs: new Counter({
      name: 'wardline_event_index_repairs_total',
      help: 'Events that the index by instance, session and type lacked and that a check added to it',
      registers,
    }),
    jobRuns: new Counter({
      name: 'wardline_job_runs_total',
      help: 'Periodic work, by job and result',
      labelNames: ['name', 'result'],
      registers,
    }),
    clockOffset: new Gauge({
      name: 'wardline_clock_offset_seconds',
      help: "How far this machine's clock is behind the database's, whose time is used; 0 with SQLite",
      registers,
    }),
    instances: new Gauge({
      name: 'wardline_instances',
      help: 'Instances by status, as of the last sweep',
      labelNames: ['status'],
      registers,
    }),
  }
}

export type Metrics = ReturnType<typeof createMetrics>
