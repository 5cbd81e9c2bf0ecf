import { AppError } from '../../errors.ts'
import { assertFewValues, bodyText } from '../../http/json.ts'
import type { Slices, WorkBudget } from '../../work-turns.ts'
import {
  type Attributes,
  cleanText,
  errorCode,
  maxRecords,
  type Signal,
  type TelemetryRecord,
  tooMany,
  type Visitor,
  type WantedKeys,
} from './records.ts'

// OTLP as JSON (opentelemetry.io/docs/specs/otlp, "JSON Protobuf Encoding"): ids are hex, 64-bit numbers may be texts,
// unknown fields are ignored. Records are parsed one by one, since a whole body would hold the event loop.

const malformed = new AppError('invalid', 'The body is not a request of OTLP as JSON.')
/** Characters of a record or resource: parsing this much takes a few milliseconds. */
const maxParsed = 256 * 1024
const unitsOfSign = 40
/** Of a list of texts, such as finish reasons. */
const maxItems = 16
/** Cost of parsing a character, several times that of reading it. */
const unitsOfParsing = 20

const names: Record<Signal, [resources: string, scopes: string, records: string]> = {
  traces: ['resourceSpans', 'scopeSpans', 'spans'],
  logs: ['resourceLogs', 'scopeLogs', 'logRecords'],
  metrics: ['resourceMetrics', 'scopeMetrics', 'metrics'],
}

type Range = readonly [start: number, end: number]
type Parts = (readonly [name: string, range: Range])[]

/** Finds the elements of an array, or of an object with their names, without parsing them. */
function* partsOf(text: string, [start, end]: Range, open: '[' | '{', budget: WorkBudget): Slices<Parts> {
  const parts: Parts = []
  const signs = /["[\]{},:\\]/g
  const first = start + text.slice(start, Math.min(end, start + 64)).search(/[^ \t\n\r]/)
  if (text[first] !== open) throw malformed
  signs.lastIndex = first + 1
  let depth = 0
  let name = ''
  let from = first + 1
  let lastText: Range | undefined
  /** Where the text begins that is passed now; in it only its end and escapes count. */
  let textFrom = -1
  for (let sign = signs.exec(text); sign !== null && sign.index < end; sign = signs.exec(text)) {
    budget.count(unitsOfSign)
    if (budget.isSliceOver()) yield
    const character = sign[0]
    if (character === '\\') signs.lastIndex += 1
    else if (textFrom >= 0) {
      if (character !== '"') continue
      if (depth === 0) lastText = [textFrom, sign.index]
      textFrom = -1
    } else if (character === '"') {
      textFrom = sign.index + 1
    } else if (character === '[' || character === '{') depth += 1
    else if (depth > 0) depth -= character === ']' || character === '}' ? 1 : 0
    else if (character === ':') {
      // No name that is read has escapes or is long.
      name = lastText ? text.slice(lastText[0], Math.min(lastText[1], lastText[0] + 64)) : ''
      from = sign.index + 1
    } else {
      if (parts.length > maxRecords) throw tooMany
      parts.push([name, [from, sign.index]])
      if (character !== ',') return parts
      from = sign.index + 1
      name = ''
    }
  }
  throw malformed
}

function parse(text: string, [start, end]: Range, budget: WorkBudget): Record<string, unknown> | 'too large' {
  budget.count((end - start) * unitsOfParsing)
  const part = text.slice(start, end)
  if (part.length > maxParsed) return 'too large'
  try {
    assertFewValues(part)
  } catch {
    return 'too large'
  }
  try {
    return Object(JSON.parse(part)) as Record<string, unknown>
  } catch {
    throw malformed
  }
}

const textOf = (value: unknown, max?: number): string => (typeof value === 'string' ? cleanText(value, max) : '')
const timeOf = (value: unknown): number => {
  const time = Number(typeof value === 'string' || typeof value === 'number' ? value : 0) / 1e6
  return Number.isFinite(time) ? time : 0
}

function plainValue(given: unknown, max?: number): string | number | boolean | undefined {
  const { stringValue, boolValue, intValue, doubleValue, arrayValue } = Object(given) as Record<string, unknown>
  if (typeof stringValue === 'string') return textOf(stringValue, max)
  if (typeof boolValue === 'boolean') return boolValue
  if (arrayValue !== undefined) return listOf(arrayValue)
  const number = intValue ?? doubleValue
  return typeof number === 'string' || typeof number === 'number' ? Number(number) : undefined
}

function listOf(given: unknown): string {
  const { values } = Object(given) as Record<string, unknown>
  const items = Array.isArray(values) ? values.slice(0, maxItems) : []
  return items.map((item) => textOf((Object(item) as Record<string, unknown>).stringValue)).join(',')
}

function attributesOf(given: unknown, wanted: WantedKeys): Attributes {
  const attributes: Attributes = new Map()
  for (const one of Array.isArray(given) ? given : []) {
    const { key, value } = Object(one) as Record<string, unknown>
    const read = typeof key === 'string' && wanted.has(key) ? plainValue(value, wanted.get(key)) : undefined
    if (read !== undefined) attributes.set(key as string, read)
  }
  return attributes
}

const metricKinds = ['gauge', 'sum', 'histogram', 'exponentialHistogram', 'summary']

function pointsOf(given: Record<string, unknown>): number {
  return metricKinds.reduce((count, kind) => {
    const { dataPoints } = Object(given[kind]) as Record<string, unknown>
    return count + (Array.isArray(dataPoints) ? dataPoints.length : 0)
  }, 0)
}

function recordOf(signal: Signal, given: Record<string, unknown>, wanted: WantedKeys): TelemetryRecord {
  const hex = (value: unknown) => /^[0-9a-f]{16,32}$/i.exec(textOf(value))?.[0].toLowerCase() ?? ''
  return {
    name: textOf(given.name) || textOf(given.eventName) || textOf(plainValue(given.body)),
    at: timeOf(given.endTimeUnixNano) || timeOf(given.timeUnixNano) || timeOf(given.observedTimeUnixNano),
    startedAt: timeOf(given.startTimeUnixNano),
    traceId: hex(given.traceId),
    spanId: hex(given.spanId),
    parentId: hex(given.parentSpanId),
    isError: (Object(given.status) as Record<string, unknown>).code === errorCode,
    attributes: attributesOf(given.attributes, wanted),
    points: signal === 'metrics' ? pointsOf(given) : 1,
  }
}

/** Reads a request of any signal. Throws AppError `invalid`. */
export function* readJson(signal: Signal, bytes: Buffer, visitor: Visitor, budget: WorkBudget): Slices<void> {
  const text = bodyText(bytes)
  const [resources, scopes, records] = names[signal]
  /** The elements of a list in an object, which may be absent. */
  function* listIn(members: Parts, name: string): Slices<Range[]> {
    const range = members.findLast(([own]) => own === name)?.[1]
    const elements = range ? yield* partsOf(text, range, '[', budget) : []
    return elements.map(([, element]) => element).filter(([start, end]) => text.slice(start, end).trim() !== '')
  }
  const membersOf = (range: Range) => partsOf(text, range, '{', budget)
  for (const group of yield* listIn(yield* membersOf([0, text.length]), resources)) {
    const members = yield* membersOf(group)
    const resource = members.findLast(([own]) => own === 'resource')?.[1]
    const described = resource ? parse(text, resource, budget) : {}
    visitor.resource(described === 'too large' ? new Map() : attributesOf(described.attributes, visitor.wanted))
    for (const scope of yield* listIn(members, scopes)) {
      for (const range of yield* listIn(yield* membersOf(scope), records)) {
        const record = parse(text, range, budget)
        if (record === 'too large') visitor.refuse()
        else visitor.record(recordOf(signal, record, visitor.wanted))
        if (budget.isSliceOver()) yield
      }
    }
  }
}
