import { type AnswerPool, plain } from './answer-pool.ts'
import { isValid, type Schema, schemaDraws } from './schema-draws.ts'

/** What is used of an operation in the OpenAPI description. */
export interface Operation {
  operationId: string
  description?: string
  tags: string[]
  security: object[]
  parameters: { name: string; in: 'path' | 'query' | 'header'; required: boolean; schema: Schema }[]
  requestBody?: { content: Record<string, { schema?: Schema }> }
  responses: Record<string, { content: Record<string, { schema?: Schema }> }>
}

type Part = 'path' | 'query' | 'body'

export interface Route extends Operation {
  method: string
  path: string
  /** undefined: open to all. */
  scopes: string[] | undefined
  parts: Partial<Record<Part, Schema>>
  /** What its path speaks of: `alerts`, and `comments` if that is its end. */
  things: string[]
  /** Names of all its fields, and of the one that no schema has. */
  words: Set<string>
}

export interface Asked {
  number: number
  route: Route
  url: string
  body: unknown
  /** Content type, and text in place of the body as JSON; undefined: no body is sent. */
  raw: { type: string; text?: string } | undefined
  scope: string | undefined
  drawn: Partial<Record<Part, unknown>>
  /** The rule that the request breaks. */
  broken: string | undefined
  /** Numbers of the requests of whose answers it uses values. */
  from: Set<number>
}

export interface Answer {
  status: number
  text: string
  type: string
  code: string
}

/** Sends to fixed hosts of others, such as api.telegram.org. */
const leftOut = ['testChannel']
const casesOfSequence = 12
const jsonType = 'application/json'

/** Bodies whose grammar is in a guide and not in a schema. */
const documents: Record<string, string> = {
  event_type: 'session_metrics',
  description: '{"calls":4}',
  rule: `title: Drawn
severity: warning
detection:
  call: { event_type: tool_call }
  condition: call
tests:
  match: [[{ event_type: tool_call }]]
  no_match: [[{ event_type: report }]]
`,
  policy: `title: Drawn
rules:
  - title: Ask for commands
    match: { tool: shell-exec }
    decision: ask
`,
}

function addNames(schema: unknown, names: Set<string>): void {
  if (typeof schema !== 'object' || schema === null) return
  for (const [name, part] of Object.entries(schema)) {
    if (name === 'properties') for (const property of Object.keys(part)) names.add(property)
    addNames(part, names)
  }
}

function routeOf(method: string, path: string, operation: Operation): Route {
  const { parameters, requestBody, security, description = '' } = operation
  const parts: Route['parts'] = {}
  for (const place of ['path', 'query'] as const) {
    const listed = parameters.filter((parameter) => parameter.in === place)
    if (listed.length === 0) continue
    const required = listed.filter((parameter) => parameter.required).map(({ name }) => name)
    const properties = Object.fromEntries(listed.map(({ name, schema }) => [name, schema]))
    parts[place] = { type: 'object', properties, required }
  }
  const body = requestBody?.content[jsonType]?.schema
  if (body) parts.body = body
  const words = new Set(['no_such_field'])
  addNames(parts, words)
  const segments = path.split('/').filter((segment) => segment !== '' && segment !== 'api' && !segment.startsWith('{'))
  const isOpen = security.length === 0 || security.some((way) => Object.keys(way).length === 0)
  const scopes = isOpen ? undefined : /^Scopes: ([a-z, ]+)\./.exec(description)![1]!.split(', ')
  return {
    ...operation,
    method: method.toUpperCase(),
    path,
    scopes,
    parts,
    words,
    things: [segments[0]!, segments.at(-1)!],
  }
}

export const routesOf = (document: { paths: Record<string, Record<string, Operation>> }): Route[] =>
  Object.entries(document.paths)
    .flatMap(([path, operations]) => Object.entries(operations).map(([method, one]) => routeOf(method, path, one)))
    .filter(({ operationId }) => !leftOut.includes(operationId))

interface Around {
  pool: AnswerPool
  scopes: readonly (string | undefined)[]
  now(): number
}

/** Draws requests of the routes: mostly of one feature at a time, and about what earlier answers showed. */
export function requestDraws(seed: number, routes: readonly Route[], { pool, scopes, now }: Around) {
  let from = new Set<number>()
  const find = (name: string) => {
    if (Object.hasOwn(documents, name) && chance(0.3)) return documents[name]
    const known = pool.find(name, draws.pick)
    if (known) from.add(known.from)
    return known?.value
  }
  const draws = schemaDraws(seed, find, now)
  const { chance, pick, between } = draws
  const features = [...new Set(routes.map(({ tags }) => tags[0]!))]
  let ofFeature: Route[] = []

  function nextRoute(number: number): Route {
    const step = number % casesOfSequence
    if (step === 0) {
      const feature = pick(features)
      ofFeature = routes.filter(({ tags }) => tags[0] === feature)
    }
    const makers = ofFeature.filter(({ responses }) => '201' in responses)
    if (step < 3 && makers.length > 0) return pick(makers)
    return pick(chance(0.85) ? ofFeature : routes)
  }

  function drawPath({ path }: Route, schema: Schema): Record<string, unknown> {
    const drawn: Record<string, unknown> = {}
    for (const [name, property] of Object.entries(schema.properties!)) {
      const thing = path
        .slice(0, path.indexOf(`/{${name}}`))
        .split('/')
        .at(-1)
      const called = name === 'instanceId' ? name : `${plain(thing!)}.${name}`
      const known = chance(0.9) ? find(called) : undefined
      drawn[name] = known !== undefined && isValid(property, known) ? known : draws.value(property, called)
    }
    return drawn
  }

  function drawBody({ path }: Route, schema: Schema): unknown {
    const isDocument = !schema.properties && (schema.minProperties ?? 0) > 0
    const name = path.includes('polic') ? 'policy' : 'rule'
    return isDocument && chance(0.9) ? { [name]: documents[name] } : draws.value(schema, 'body')
  }

  const dropAbsent = (value: object) =>
    Object.fromEntries(Object.entries(value).filter(([, part]) => part !== undefined))

  /** Breaks one rule of one part. Returns which; undefined if none was broken. */
  function breakOne({ parts }: Route, drawn: Asked['drawn']): string | undefined {
    const part = pick(Object.keys(parts)) as Part | undefined
    const broken = part && draws.broken(parts[part]!, drawn[part])
    if (!part || !broken) return undefined
    if (part !== 'body') {
      // There everything is text. An empty or missing part of a path is another path.
      if (typeof broken.value !== 'object') return undefined
      const values = Object.values(dropAbsent(broken.value as object))
      if (values.some((value) => typeof value !== 'string' || value === '')) return undefined
      if (part === 'path' && values.length < Object.keys(parts.path!.properties!).length) return undefined
    }
    drawn[part] = part === 'body' ? broken.value : dropAbsent(broken.value as object)
    return `${part}: ${broken.rule}`
  }

  function rawOf({ requestBody }: Route): Asked['raw'] {
    const types = Object.keys(requestBody?.content ?? {})
    if (types.length === 0 || chance(0.02)) return undefined
    return types.includes(jsonType) ? { type: jsonType } : { type: types[0]!, text: 'a=b' }
  }

  type Drawn = Pick<Asked, 'route' | 'scope' | 'drawn' | 'raw' | 'broken'>

  function asked(number: number, { route, drawn, raw, ...rest }: Drawn): Asked {
    const given = (drawn.path ?? {}) as Record<string, unknown>
    const path = route.path.replaceAll(/\{(\w+)\}/g, (_, name) => encodeURIComponent(String(given[name])))
    const query = new URLSearchParams(drawn.query as Record<string, string> | undefined)
    const url = query.size > 0 ? `${path}?${query}` : path
    return { number, route, url, body: raw ? (drawn.body ?? {}) : undefined, raw, drawn, from, ...rest }
  }

  return {
    between,

    next(number: number): Asked {
      from = new Set()
      const route = nextRoute(number)
      const { parts } = route
      const drawn: Asked['drawn'] = {}
      if (parts.path) drawn.path = drawPath(route, parts.path)
      if (parts.query) drawn.query = draws.value(parts.query, 'query')
      if (parts.body) drawn.body = drawBody(route, parts.body)
      const raw = rawOf(route)
      const isMissing = raw === undefined && route.requestBody !== undefined
      const broken = isMissing ? 'body: is missing' : chance(0.25) ? breakOne(route, drawn) : undefined
      return asked(number, { route, scope: chance(0.75) ? 'admin' : pick(scopes), drawn, raw, broken })
    },

    /** The request without the field that its refusal names, or with it or another value of it; undefined: names none. */
    repaired(refused: Asked, sentence: string, number: number): Asked | undefined {
      from = new Set(refused.from)
      const name = /^\w+/.exec(sentence)?.[0] ?? ''
      for (const part of ['body', 'query'] as const) {
        const { properties, required = [] } = refused.route.parts[part] ?? {}
        const property = properties?.[name]
        if (!property) continue
        const { [name]: old, ...rest } = refused.drawn[part] as Record<string, unknown>
        const isLeftOut = old !== undefined && !required.includes(name)
        const drawn = isLeftOut ? rest : { ...rest, [name]: draws.value(property, name) }
        return asked(number, { ...refused, drawn: { ...refused.drawn, [part]: drawn } })
      }
      return undefined
    },
  }
}
