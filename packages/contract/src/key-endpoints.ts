import { AuditPage, AuditQuery } from './audit.ts'
import { access, define } from './endpoint.ts'
import { Ok } from './fields.ts'
import { KeyCreated, KeyList, KeyParams, KeyRevoked, KeyRotation, NewKey, SessionCreated } from './keys.ts'

/** Keys, browser sessions, and the record of what they were used for. */
export const keyEndpoints = {
  listKeys: define({
    method: 'GET',
    path: '/api/keys',
    access: access.admins,
    feature: 'keys',
    summary: 'Keys, never their secrets',
    status: 200,
    reply: KeyList,
  }),
  createKey: define({
    method: 'POST',
    path: '/api/keys',
    access: access.admins,
    feature: 'keys',
    summary: 'Create a key',
    body: NewKey,
    status: 201,
    reply: KeyCreated,
  }),
  rotateKey: define({
    method: 'POST',
    path: '/api/keys/:id/rotate',
    access: access.admins,
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
    access: access.admins,
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
    access: access.readers,
    feature: 'keys',
    summary: 'Trade a key for a browser session: an HttpOnly, SameSite=Strict cookie',
    status: 201,
    reply: SessionCreated,
  }),
  deleteSession: define({
    method: 'DELETE',
    path: '/api/session',
    access: access.readers,
    feature: 'keys',
    summary: 'Log out',
    status: 200,
    reply: Ok,
  }),
  listAudit: define({
    method: 'GET',
    path: '/api/audit',
    access: access.admins,
    feature: 'audit',
    summary: 'The hash-chained record of control actions, oldest first',
    query: AuditQuery,
    status: 200,
    reply: AuditPage,
  }),
}
