import type { Static, TSchema } from 'typebox'
import { AuditPage, AuditQuery } from './audit.ts'
import { EventBatchReply, EventCreated, EventList, EventQuery, NewEvent } from './events.ts'
import { InstanceParams, Ok } from './fields.ts'
import {
  CheckReply,
  HoneypotCreated,
  HoneypotDeleted,
  HoneypotDetail,
  HoneypotList,
  HoneypotParams,
  HoneypotQuery,
  KeyCheck,
  NewHoneypot,
  PathCheck,
} from './honeypots.ts'
import { Heartbeat, InstanceDetail } from './instances.ts'
import { KeyCreated, KeyList, KeyParams, KeyRevoked, KeyRotation, NewKey, type Scope, SessionCreated } from './keys.ts'
import { ControlAck, KillReply, KillRequest, KillSwitchState, ResumeReply } from './kill-switch.ts'
import { Readiness } from './operations.ts'
import { FleetStatus } from './status.ts'
import { TrustSummary } from './trust.ts'

export interface Endpoint {
  method: 'GET' | 'POST' | 'DELETE'
  /** Path with `:name` parameters. */
  path: string
  /** Key scopes that may call it; `open` needs no key, the others are open or not by configuration. */
  access: readonly Scope[] | 'open' | 'stream' | 'metrics'
  feature: string
  summary: string
  params?: TSchema
  query?: TSchema
  body?: TSchema
  /** A body that the handler reads itself, because it comes in several forms. */
  rawBody?: { contentTypes: readonly string[]; description: string }
  /** Request headers with a meaning, by name. */
  headers?: Record<string, string>
  /** The reply of success: its status, and its schema unless it is text or a stream. */
  status: 200 | 201
  reply?: TSchema
  text?: string
  /** Server-Sent Events instead of one JSON body. */
  eventStream?: string
  /** Statuses of failure besides those that every endpoint shares. */
  failures?: Record<number, string>
}

const define = <const Definition extends Endpoint>(definition: Definition): Definition => definition

const agents = ['agent', 'admin'] as const
const readers = ['viewer', 'operator', 'admin'] as const
const everyone = ['agent', 'viewer', 'operator', 'admin'] as const
const operators = ['operator', 'admin'] as const
const admins = ['admin'] as const

/** The whole HTTP interface. Routing, validation, authorisation, OpenAPI and the client all read this table. */
export const endpoints = {
  sendHeartbeat: define({
    method: 'POST',
    path: '/api/heartbeat',
    access: agents,
    feature: 'instances',
    summary: 'Register or refresh an instance',
    body: Heartbeat,
    status: 200,
    reply: Ok,
  }),
  createEvent: define({
    method: 'POST',
    path: '/api/events',
    access: agents,
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
    access: agents,
    feature: 'events',
    summary: 'Store up to 1,000 events; each is stored or refused by itself',
    rawBody: {
      contentTypes: ['application/json', 'application/x-ndjson'],
      description: 'A JSON array, or one JSON object a line',
    },
    status: 200,
    reply: EventBatchReply,
    failures: { 503: 'The queue is full; try again after Retry-After seconds' },
  }),
  listEvents: define({
    method: 'GET',
    path: '/api/events',
    access: readers,
    feature: 'events',
    summary: 'Events, newest first',
    query: EventQuery,
    status: 200,
    reply: EventList,
  }),
  killInstance: define({
    method: 'POST',
    path: '/api/kill/:instanceId',
    access: operators,
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
    access: operators,
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
    access: readers,
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
    access: everyone,
    feature: 'kill-switch',
    summary: 'Is this instance suspended? Answers 304 to If-None-Match with the current ETag',
    params: InstanceParams,
    headers: { 'if-none-match': 'ETag of the last answer' },
    status: 200,
    reply: KillSwitchState,
    failures: { 404: 'Unknown instance' },
  }),
  streamControl: define({
    method: 'GET',
    path: '/api/instances/:instanceId/control',
    access: everyone,
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
    access: agents,
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
    access: readers,
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
      'Each `data:` line is { type, data }: `heartbeat` first and every 30 seconds, `event` with the stored row, `stats` with severity counts. `id:` is the row’s seq',
    failures: { 503: 'Too many streams' },
  }),
  listHoneypots: define({
    method: 'GET',
    path: '/api/honeypots',
    access: readers,
    feature: 'honeypots',
    summary: 'Decoys, of one instance or of all; never their values',
    query: HoneypotQuery,
    status: 200,
    reply: HoneypotList,
  }),
  getHoneypot: define({
    method: 'GET',
    path: '/api/honeypots/:id',
    access: readers,
    feature: 'honeypots',
    summary: 'One decoy with its latest hits; hits outlive the decoy',
    params: HoneypotParams,
    status: 200,
    reply: HoneypotDetail,
    failures: { 404: 'Unknown honeypot' },
  }),
  createHoneypot: define({
    method: 'POST',
    path: '/api/honeypots',
    access: operators,
    feature: 'honeypots',
    summary: 'Create a decoy key or a decoy path',
    body: NewHoneypot,
    status: 201,
    reply: HoneypotCreated,
  }),
  checkKey: define({
    method: 'POST',
    path: '/api/honeypots/check/key',
    access: agents,
    feature: 'honeypots',
    summary: 'Does this text hold a decoy key? A match is recorded as a breach before the answer',
    body: KeyCheck,
    status: 200,
    reply: CheckReply,
  }),
  checkPath: define({
    method: 'POST',
    path: '/api/honeypots/check/path',
    access: agents,
    feature: 'honeypots',
    summary: 'Is this path a decoy? A match is recorded as a breach before the answer',
    body: PathCheck,
    status: 200,
    reply: CheckReply,
  }),
  deleteHoneypot: define({
    method: 'DELETE',
    path: '/api/honeypots/:id',
    access: operators,
    feature: 'honeypots',
    summary: 'Remove a decoy; its hits stay',
    params: HoneypotParams,
    status: 200,
    reply: HoneypotDeleted,
    failures: { 404: 'Unknown honeypot' },
  }),
  listKeys: define({
    method: 'GET',
    path: '/api/keys',
    access: admins,
    feature: 'keys',
    summary: 'Keys, never their secrets',
    status: 200,
    reply: KeyList,
  }),
  createKey: define({
    method: 'POST',
    path: '/api/keys',
    access: admins,
    feature: 'keys',
    summary: 'Create a key',
    body: NewKey,
    status: 201,
    reply: KeyCreated,
  }),
  rotateKey: define({
    method: 'POST',
    path: '/api/keys/:id/rotate',
    access: admins,
    feature: 'keys',
    summary: 'Replace a key; the old one stays valid for the overlap',
    params: KeyParams,
    body: KeyRotation,
    status: 201,
    reply: KeyCreated,
    failures: { 404: 'Unknown key' },
  }),
  revokeKey: define({
    method: 'DELETE',
    path: '/api/keys/:id',
    access: admins,
    feature: 'keys',
    summary: 'Revoke a key; every process refuses it within one second',
    params: KeyParams,
    status: 200,
    reply: KeyRevoked,
    failures: { 404: 'Unknown key' },
  }),
  createSession: define({
    method: 'POST',
    path: '/api/session',
    access: readers,
    feature: 'keys',
    summary: 'Trade a key for a browser session: an HttpOnly, SameSite=Strict cookie',
    status: 201,
    reply: SessionCreated,
  }),
  deleteSession: define({
    method: 'DELETE',
    path: '/api/session',
    access: readers,
    feature: 'keys',
    summary: 'Log out',
    status: 200,
    reply: Ok,
  }),
  listAudit: define({
    method: 'GET',
    path: '/api/audit',
    access: admins,
    feature: 'audit',
    summary: 'The hash-chained record of control actions, oldest first',
    query: AuditQuery,
    status: 200,
    reply: AuditPage,
  }),
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
