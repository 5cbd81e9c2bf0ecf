import type { Static, TSchema } from 'typebox'
import { alertEndpoints } from './alert-endpoints.ts'
import { access, define, type Endpoint } from './endpoint.ts'
import { EventBatchReply, EventCreated, EventList, EventQuery, NewEvent } from './events.ts'
import { InstanceParams, Ok } from './fields.ts'
import { honeypotEndpoints } from './honeypot-endpoints.ts'
import { decoysHeader, Heartbeat, InstanceDetail } from './instances.ts'
import { keyEndpoints } from './key-endpoints.ts'
import { ControlAck, KillReply, KillRequest, KillSwitchState, ResumeReply } from './kill-switch.ts'
import { Readiness } from './operations.ts'
import { FleetStatus } from './status.ts'
import { TrustSummary } from './trust.ts'

/** The whole HTTP interface. Routing, validation, authorisation, OpenAPI and the client all read this table. */
export const endpoints = {
  sendHeartbeat: define({
    method: 'POST',
    path: '/api/heartbeat',
    access: access.agents,
    feature: 'instances',
    summary: 'Register or refresh an instance',
    body: Heartbeat,
    status: 200,
    replyHeaders: { [decoysHeader]: '`none` while no decoy could trip for this caller: it need not ask; else `some`' },
    reply: Ok,
  }),
  createEvent: define({
    method: 'POST',
    path: '/api/events',
    access: access.agents,
    feature: 'events',
    summary: 'Store an event; the answer comes after it is on disk',
    body: NewEvent,
    headers: {
      'idempotency-key': 'The same key from the same caller within 24 hours returns the same id, no second row',
    },
    status: 201,
    reply: EventCreated,
    failures: { 503: 'The queue is full; try again after Retry-After seconds' },
  }),
  createEvents: define({
    method: 'POST',
    path: '/api/events/batch',
    access: access.agents,
    feature: 'events',
    summary: 'Store up to 1,000 events; each is stored or refused by itself',
    rawBody: {
      contentTypes: ['application/json', 'application/x-ndjson'],
      description: 'A JSON array, or one JSON object a line',
    },
    headers: {
      'idempotency-key':
        'The same key from the same caller within 24 hours returns the same ids and stores nothing twice',
    },
    status: 200,
    reply: EventBatchReply,
    failures: { 503: 'The queue is full; try again after Retry-After seconds' },
  }),
  listEvents: define({
    method: 'GET',
    path: '/api/events',
    access: access.readers,
    feature: 'events',
    summary: 'Events, newest first',
    query: EventQuery,
    status: 200,
    reply: EventList,
  }),
  killInstance: define({
    method: 'POST',
    path: '/api/kill/:instanceId',
    access: access.operators,
    feature: 'kill-switch',
    summary: 'Suspend an instance',
    params: InstanceParams,
    body: KillRequest,
    status: 200,
    reply: KillReply,
    failures: { 404: 'Unknown instance' },
  }),
  resumeInstance: define({
    method: 'POST',
    path: '/api/resume/:instanceId',
    access: access.operators,
    feature: 'kill-switch',
    summary: 'Resume a suspended instance',
    params: InstanceParams,
    status: 200,
    reply: ResumeReply,
    failures: { 404: 'Unknown instance' },
  }),
  getInstance: define({
    method: 'GET',
    path: '/api/instances/:instanceId',
    access: access.readers,
    feature: 'instances',
    summary: 'One instance, and whether its agent confirmed the last kill or resume',
    params: InstanceParams,
    status: 200,
    reply: InstanceDetail,
    failures: { 404: 'Unknown instance' },
  }),
  getInstanceStatus: define({
    method: 'GET',
    path: '/api/instances/:instanceId/status',
    access: access.everyone,
    feature: 'kill-switch',
    summary: 'Is this instance suspended? Answers 304 to If-None-Match with the current ETag',
    params: InstanceParams,
    headers: { 'if-none-match': 'ETag of the last answer' },
    status: 200,
    replyHeaders: { [decoysHeader]: '`none` while no decoy could trip for this caller: it need not ask; else `some`' },
    reply: KillSwitchState,
    failures: { 404: 'Unknown instance' },
  }),
  streamControl: define({
    method: 'GET',
    path: '/api/instances/:instanceId/control',
    access: access.everyone,
    feature: 'kill-switch',
    summary: 'Control messages of one instance, its current state first',
    params: InstanceParams,
    status: 200,
    eventStream: 'Each `data:` line is a control message; a comment line every 30 seconds keeps the connection open',
    failures: { 404: 'Unknown instance', 503: 'Too many streams' },
  }),
  acknowledgeControl: define({
    method: 'POST',
    path: '/api/instances/:instanceId/ack',
    access: access.agents,
    feature: 'kill-switch',
    summary: 'Confirm the control version that the agent applied',
    params: InstanceParams,
    body: ControlAck,
    status: 200,
    reply: Ok,
    failures: { 404: 'Unknown instance' },
  }),
  getStatus: define({
    method: 'GET',
    path: '/api/status',
    access: access.readers,
    feature: 'status',
    summary: 'Instances, severity counts of 24 hours, tool calls of one hour',
    status: 200,
    reply: FleetStatus,
  }),
  getTrust: define({
    method: 'GET',
    path: '/api/public/trust',
    access: 'open',
    feature: 'trust',
    summary: 'Public posture in aggregates',
    status: 200,
    reply: TrustSummary,
    failures: { 503: 'Disabled by TRUST_PUBLIC_ENABLED=false' },
  }),
  streamEvents: define({
    method: 'GET',
    path: '/api/stream',
    access: 'stream',
    feature: 'stream',
    summary: 'Live events',
    headers: { 'last-event-id': 'Resume after this seq' },
    status: 200,
    eventStream:
      'Each `data:` line is { type, data }: `heartbeat` first and every 30 seconds, `event` with the stored row, `stats` with severity counts. `id:` is the row’s seq. A client that resumes more than 10,000 events behind first gets the named event `gap` with { after, resumes_after }',
    failures: { 503: 'Too many streams' },
  }),
  ...honeypotEndpoints,
  ...keyEndpoints,
  ...alertEndpoints,
  getHealth: define({
    method: 'GET',
    path: '/healthz',
    access: 'open',
    feature: 'operations',
    summary: 'The process is alive; says nothing of the database',
    status: 200,
    reply: Ok,
  }),
  getReadiness: define({
    method: 'GET',
    path: '/readyz',
    access: 'open',
    feature: 'operations',
    summary: 'The database can be written',
    status: 200,
    reply: Readiness,
    failures: { 503: 'Not ready; the body is the same as on success' },
  }),
  getMetrics: define({
    method: 'GET',
    path: '/metrics',
    access: 'metrics',
    feature: 'operations',
    summary: 'Metrics for Prometheus',
    status: 200,
    text: 'Prometheus text format',
  }),
} as const satisfies Record<string, Endpoint>

export type EndpointName = keyof typeof endpoints

type Part<E, Key extends string> = E extends { [K in Key]: infer Schema extends TSchema } ? Static<Schema> : undefined
export type ParamsOf<Name extends EndpointName> = Part<(typeof endpoints)[Name], 'params'>
export type QueryOf<Name extends EndpointName> = Part<(typeof endpoints)[Name], 'query'>
export type BodyOf<Name extends EndpointName> = Part<(typeof endpoints)[Name], 'body'>
export type ReplyOf<Name extends EndpointName> = Part<(typeof endpoints)[Name], 'reply'>
