import { Counter, Gauge, Histogram, Registry } from 'prom-client'

/**
 * Everything that /metrics shows. Labels hold values of closed lists only:
 * an id as a label would let a caller grow the process without bound.
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
    queueRejects: new Counter({
      name: 'wardline_queue_rejects_total',
      help: 'Requests answered 503 because a queue was full',
      labelNames: ['queue'],
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
    controlChanges: new Counter({
      name: 'wardline_control_changes_total',
      help: 'Kills and resumes',
      labelNames: ['action'],
      registers,
    }),
    killConfirmSeconds: new Histogram({
      name: 'wardline_kill_confirm_seconds',
      help: 'From kill to the confirmation by the agent',
      buckets: [0.05, 0.1, 0.25, 0.5, 1, 5, 15, 30, 60, 120],
      registers,
    }),
    decoyHits: new Counter({
      name: 'wardline_decoy_hits_total',
      help: 'Decoys touched, by type',
      labelNames: ['type'],
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
      help: 'Times that the backplane came back after it was unavailable',
      registers,
    }),
    backplaneDropped: new Counter({
      name: 'wardline_backplane_publishes_dropped_total',
      help: 'Messages that the backplane did not take, by channel; receivers read the database instead',
      labelNames: ['channel'],
      registers,
    }),
    backplaneRefused: new Counter({
      name: 'wardline_backplane_messages_refused_total',
      help: 'Messages on the backplane that changed nothing, by channel and reason',
      labelNames: ['channel', 'reason'],
      registers,
    }),
    alertTries: new Counter({
      name: 'wardline_alert_tries_total',
      help: 'Tries to deliver an alert message, by type of channel and result (delivered, failed = tried again, dead = given up)',
      labelNames: ['channel', 'result'],
      registers,
    }),
    alertTrySeconds: new Histogram({
      name: 'wardline_alert_try_seconds',
      help: 'Time that a receiver took to answer, by type of channel',
      labelNames: ['channel'],
      buckets: [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15],
      registers,
    }),
    alertDelaySeconds: new Histogram({
      name: 'wardline_alert_delay_seconds',
      help: 'From the message, written after its alert, to its delivery, by type of channel',
      labelNames: ['channel'],
      buckets: [0.05, 0.1, 0.25, 0.5, 1, 5, 30, 300, 3600, 86400],
      registers,
    }),
    alertMessages: new Gauge({
      name: 'wardline_alert_messages',
      help: 'Alert messages that wait or were given up, by type of channel and state, as of the last minute',
      labelNames: ['channel', 'state'],
      registers,
    }),
    jobRuns: new Counter({
      name: 'wardline_job_runs_total',
      help: 'Periodic work, by job and result',
      labelNames: ['name', 'result'],
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
