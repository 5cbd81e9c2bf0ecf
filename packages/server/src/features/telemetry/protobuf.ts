import { AppError } from '../../errors.ts'
import type { Slices, WorkBudget } from '../../work-turns.ts'
import {
  type Attributes,
  cleanText,
  errorCode,
  maxText,
  newRecord,
  type Signal,
  type TelemetryRecord,
  type Visitor,
  type WantedKeys,
} from './records.ts'

// The wire format of protobuf (protobuf.dev/programming-guides/encoding) and the messages of OTLP (opentelemetry-proto
// 1.11). Only wanted fields are decoded: what is skipped costs no more than its tag, however long it is.

const malformed = new AppError('invalid', 'The body is not a request of OTLP as protobuf.')

const wire = { varint: 0, fixed64: 1, bytes: 2, fixed32: 5 } as const
/** Cost of a tag, in units of work. */
const unitsOfField = 60
/** Cost of a record or resource. */
const unitsOfMessage = 1_000
/** Fields of an attribute, a value or a status, which have two or three: one with millions would hold the event loop. */
const maxSmall = 16
/** Data points of a metric, which are only counted: a few milliseconds. */
const maxPoints = 100_000
const maxShift = 2 ** 63

/** Reads the fields of a message, one after the other. */
class Fields {
  readonly #bytes: Buffer
  readonly #end: number
  readonly #budget: WorkBudget
  #place: number
  #left: number
  id = 0
  /** Whether it has bytes: a text, a message. */
  isLong = false
  /** The number of a field without bytes. */
  number = 0
  start = 0
  end = 0

  constructor(bytes: Buffer, start: number, end: number, budget: WorkBudget, max = Infinity) {
    this.#bytes = bytes
    this.#place = start
    this.#end = end
    this.#budget = budget
    this.#left = max
  }

  #varint(): number {
    let value = 0
    for (let factor = 1; factor <= maxShift && this.#place < this.#end; factor *= 128) {
      const byte = this.#bytes[this.#place++]!
      value += (byte & 127) * factor
      if (byte < 128) return value
    }
    throw malformed
  }

  next(): boolean {
    if (this.#place >= this.#end) return false
    if (this.#left-- <= 0) throw malformed
    this.#budget.count(unitsOfField)
    const tag = this.#varint()
    this.id = Math.floor(tag / 8)
    const kind = tag % 8
    this.isLong = kind === wire.bytes
    this.start = this.#place
    if (kind === wire.varint) {
      this.number = this.#varint()
    } else {
      const length = kind === wire.bytes ? this.#varint() : kind === wire.fixed64 ? 8 : kind === wire.fixed32 ? 4 : -1
      this.start = this.#place
      if (length < 0 || length > this.#end - this.#place) throw malformed
      this.#place += length
    }
    this.end = this.#place
    return true
  }

  /** The fields of this field, which is a message of at most `max` fields. */
  inner(max?: number): Fields {
    if (!this.isLong) throw malformed
    return new Fields(this.#bytes, this.start, this.end, this.#budget, max)
  }

  text(max = maxText): string {
    const end = Math.min(this.end, this.start + 4 * max)
    this.#budget.count(end - this.start)
    return cleanText(this.#bytes.toString('utf8', this.start, end), max)
  }

  hex = (): string => this.#bytes.toString('hex', this.start, Math.min(this.end, this.start + 16))

  double = (): number => (this.end - this.start === 8 ? this.#bytes.readDoubleLE(this.start) : Number.NaN)

  /** Nanoseconds as milliseconds. */
  time = (): number =>
    this.end - this.start === 8
      ? (this.#bytes.readUInt32LE(this.start) + this.#bytes.readUInt32LE(this.start + 4) * 2 ** 32) / 1e6
      : 0
}

/** Returns the value of an AnyValue, a list of texts with commas; undefined for a map or bytes. */
function plainValue(fields: Fields, max = maxText): string | number | boolean | undefined {
  let value: string | number | boolean | undefined
  while (fields.next()) {
    if (fields.id === 1) value = fields.text(max)
    else if (fields.id === 2) value = fields.number !== 0
    else if (fields.id === 3) value = fields.number
    else if (fields.id === 4) value = fields.double()
    else if (fields.id === 5) value = listOf(fields.inner(maxSmall))
  }
  return value
}

function listOf(fields: Fields): string {
  const texts: string[] = []
  while (fields.next()) {
    if (fields.id !== 1) continue
    for (const item = fields.inner(maxSmall); item.next(); ) if (item.id === 1) texts.push(item.text())
  }
  return texts.join(',')
}

function readAttribute(fields: Fields, wanted: WantedKeys, into: Attributes): void {
  let key = ''
  while (fields.next()) {
    if (fields.id === 1) key = fields.text()
    else if (fields.id === 2 && wanted.has(key)) {
      const value = plainValue(fields.inner(maxSmall), wanted.get(key))
      if (value !== undefined) into.set(key, value)
    }
  }
}

type Reader = (fields: Fields, record: TelemetryRecord, wanted: WantedKeys) => void
const attribute: Reader = (fields, { attributes }, wanted) => readAttribute(fields.inner(maxSmall), wanted, attributes)
const text: Reader = (fields, record) => {
  record.name = fields.text() || record.name
}
const points: Reader = (fields, record) => {
  for (const inner = fields.inner(maxPoints); inner.next(); ) if (inner.id === 1) record.points += 1
}

/** Readers of the fields of Span, LogRecord and Metric, by number. */
const readers: Record<Signal, Record<number, Reader>> = {
  traces: {
    1: (fields, record) => {
      record.traceId = fields.hex()
    },
    2: (fields, record) => {
      record.spanId = fields.hex()
    },
    4: (fields, record) => {
      record.parentId = fields.hex()
    },
    5: text,
    7: (fields, record) => {
      record.startedAt = fields.time()
    },
    8: (fields, record) => {
      record.at = fields.time()
    },
    9: attribute,
    15: (fields, record) => {
      for (const inner = fields.inner(maxSmall); inner.next(); )
        if (inner.id === 3) record.isError = inner.number === errorCode
    },
  },
  logs: {
    1: (fields, record) => {
      record.at = fields.time() || record.at
    },
    5: (fields, record) => {
      const body = plainValue(fields.inner(maxSmall))
      if (record.name === '' && typeof body === 'string') record.name = body
    },
    6: attribute,
    9: (fields, record) => {
      record.traceId = fields.hex()
    },
    10: (fields, record) => {
      record.spanId = fields.hex()
    },
    11: (fields, record) => {
      record.at ||= fields.time()
    },
    12: text,
  },
  // Gauge, Sum, Histogram, ExponentialHistogram, Summary.
  metrics: { 1: text, 5: points, 7: points, 9: points, 10: points, 11: points },
}

/** Reads a request of any signal: they have the same shape, resource → scope → record. Throws AppError `invalid`. */
export function* readProtobuf(signal: Signal, bytes: Buffer, visitor: Visitor, budget: WorkBudget): Slices<void> {
  for (const request = new Fields(bytes, 0, bytes.length, budget); request.next(); ) {
    if (budget.isSliceOver()) yield
    if (request.id !== 1) continue
    yield* readResource(request, visitor, budget)
    for (const group = request.inner(); group.next(); ) {
      if (budget.isSliceOver()) yield
      if (group.id !== 2) continue
      for (const scope = group.inner(); scope.next(); ) {
        if (budget.isSliceOver()) yield
        if (scope.id !== 2) continue
        budget.count(unitsOfMessage)
        const record = newRecord()
        if (signal === 'metrics') record.points = 0
        for (const fields = scope.inner(); fields.next(); ) {
          readers[signal][fields.id]?.(fields, record, visitor.wanted)
          if (budget.isSliceOver()) yield
        }
        visitor.record(record)
      }
    }
  }
}

/** The resource may follow its records. */
function* readResource(request: Fields, visitor: Visitor, budget: WorkBudget): Slices<void> {
  budget.count(unitsOfMessage)
  const attributes: Attributes = new Map()
  for (const group = request.inner(); group.next(); ) {
    if (budget.isSliceOver()) yield
    if (group.id !== 1) continue
    for (const resource = group.inner(); resource.next(); ) {
      if (resource.id === 1) readAttribute(resource.inner(maxSmall), visitor.wanted, attributes)
      if (budget.isSliceOver()) yield
    }
  }
  visitor.resource(attributes)
}
