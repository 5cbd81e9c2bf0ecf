import { suspendedHeader } from './control.ts'
import type { Endpoint } from './endpoint.ts'
import { endpoints } from './endpoints.ts'
import { ErrorReply } from './fields.ts'
import { sessionHeader } from './keys.ts'

type Json = Record<string, unknown>

const json = (schema: unknown): Json => ({ 'application/json': { schema } })

/** Errors of OTLP/HTTP: a google.rpc.Status. */
const rpcStatus = {
  type: 'object',
  required: ['code', 'message'],
  properties: { code: { type: 'integer' }, message: { type: 'string', description: 'One plain sentence' } },
}
/** In the form of the request. */
const otlp = (schema: unknown): Json => ({ ...json(schema), 'application/x-protobuf': {} })

function parameters(endpoint: Endpoint): Json[] {
  const from = (schema: unknown, place: 'path' | 'query') => {
    const { properties = {}, required = [] } = (schema ?? {}) as { properties?: Json; required?: string[] }
    return Object.entries(properties).map(([name, property]) => ({
      name,
      in: place,
      required: place === 'path' || required.includes(name),
      schema: property,
    }))
  }
  const headers = Object.entries(endpoint.headers ?? {}).map(([name, description]) => ({
    name,
    in: 'header',
    required: false,
    description,
    schema: { type: 'string' },
  }))
  return [...from(endpoint.params, 'path'), ...from(endpoint.query, 'query'), ...headers]
}

function requestBody(endpoint: Endpoint): Json {
  if (endpoint.body) {
    const yaml = endpoint.yaml ? { 'application/yaml': { schema: { type: 'string' } } } : {}
    return { requestBody: { required: true, content: { ...json(endpoint.body), ...yaml } } }
  }
  if (!endpoint.rawBody) return {}
  const { contentTypes, json: schema } = endpoint.rawBody
  const content = Object.fromEntries(
    contentTypes.map((type) => [type, schema && type === 'application/json' ? { schema } : {}]),
  )
  return { requestBody: { required: true, description: endpoint.rawBody.description, content } }
}

const suspendedText =
  'The control version, while the agent that asks is suspended; also in answers with an error. Not signed: poll GET /api/instances/{instanceId}/status'

function replyHeaders({ replyHeaders: named, access }: Endpoint): Json {
  const forAgents = access.includes('agent') ? { [suspendedHeader]: suspendedText } : {}
  const headers = Object.entries({ ...named, ...forAgents }).map(([name, description]) => [
    name,
    { description, schema: { type: 'string' } },
  ])
  return headers.length === 0 ? {} : { headers: Object.fromEntries(headers) }
}

function success(endpoint: Endpoint): Json {
  if (endpoint.eventStream) {
    return { description: endpoint.eventStream, content: { 'text/event-stream': { schema: { type: 'string' } } } }
  }
  if (endpoint.text) {
    return { description: endpoint.text, content: { 'text/plain': { schema: { type: 'string' } } } }
  }
  if (endpoint.file) {
    const { contentType, description } = endpoint.file
    return { description, ...replyHeaders(endpoint), content: { [contentType]: {} } }
  }
  const content = endpoint.isOtlp ? otlp(endpoint.reply) : json(endpoint.reply)
  return { description: 'Done', ...replyHeaders(endpoint), content }
}

function operation(name: string, endpoint: Endpoint): Json {
  const secured = endpoint.access !== 'open'
  const allowed = Array.isArray(endpoint.access) ? `Scopes: ${endpoint.access.join(', ')}.` : undefined
  const takesBody = endpoint.body || endpoint.rawBody
  const takesInput = endpoint.params || endpoint.query || takesBody
  const failure = (description: string): Json => ({
    description,
    content: endpoint.isOtlp ? otlp(rpcStatus) : json(ErrorReply),
  })
  const failures: Json = {
    ...(takesInput ? { 400: failure('A field is invalid; the message names the field and the rule') } : {}),
    ...(secured ? { 401: failure('Missing or invalid key') } : {}),
    ...(Array.isArray(endpoint.access)
      ? { 403: failure('The key lacks the scope, or is bound to other instances') }
      : {}),
    ...(takesBody
      ? { 413: failure('The body is too large'), 415: failure('The body is of none of the content types') }
      : {}),
    ...(endpoint.query ? { 431: failure('The path, query and headers are too long together') } : {}),
    ...(secured
      ? { 429: failure('Too many invalid keys came from this address; retry after Retry-After seconds') }
      : {}),
    500: failure('The database failed, or another internal error occurred'),
    503: failure('The service or its database is busy; retry after Retry-After seconds'),
    ...Object.fromEntries(Object.entries(endpoint.failures ?? {}).map(([status, text]) => [status, failure(text)])),
  }
  const security = endpoint.access === 'open' ? [] : [{ key: [] }, { session: [], session_secret: [] }]
  // Configuration decides whether these need a key, so no authentication is one alternative.
  if (endpoint.access === 'stream' || endpoint.access === 'metrics') security.unshift({} as never)
  return {
    operationId: name,
    tags: [endpoint.feature],
    summary: endpoint.summary,
    ...(allowed ? { description: allowed } : {}),
    security,
    parameters: parameters(endpoint),
    ...requestBody(endpoint),
    responses: {
      ...(endpoint.unchanged ? { 200: { ...success(endpoint), description: endpoint.unchanged } } : {}),
      [endpoint.status]: success(endpoint),
      ...failures,
    },
  }
}

/** Builds the OpenAPI 3.1 document (https://spec.openapis.org/oas/v3.1.0) from the endpoint table. */
export function openApiDocument(version: string): Json {
  const paths: Record<string, Json> = {}
  for (const [name, endpoint] of Object.entries(endpoints)) {
    const path = endpoint.path.replaceAll(/:(\w+)/g, '{$1}')
    paths[path] = { ...paths[path], [endpoint.method.toLowerCase()]: operation(name, endpoint) }
  }
  const document = {
    openapi: '3.1.0',
    info: {
      title: 'Wardline',
      version,
      description: 'Self-hosted security monitor for fleets of AI agents.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    paths,
    components: {
      securitySchemes: {
        key: { type: 'apiKey', in: 'header', name: 'X-Monitor-Key' },
        session: { type: 'apiKey', in: 'cookie', name: 'wardline' },
        session_secret: { type: 'apiKey', in: 'header', name: sessionHeader },
      },
    },
  }
  return JSON.parse(JSON.stringify(document))
}
