import { AppError } from '../../errors.ts'

/** A value of an attribute; a list of texts with commas. Others are not read. */
export type Attributes = Map<string, string | number | boolean>

export const signals = ['traces', 'logs', 'metrics'] as const
export type Signal = (typeof signals)[number]

/** A span, a log record, or a metric with its data points. */
export interface TelemetryRecord {
  /** Of a log record its event name, or its body where it has none. */
  name: string
  /** When it ended or happened, in epoch milliseconds; 0: unknown. */
  at: number
  /** Of a span, in epoch milliseconds; 0: unknown. */
  startedAt: number
  /** Hex; '' if there is none. */
  traceId: string
  spanId: string
  parentId: string
  isError: boolean
  attributes: Attributes
  /** Of a metric; 1 otherwise. */
  points: number
}

/** Keys of attributes, each with the maximum length of its text in characters. */
export type WantedKeys = ReadonlyMap<string, number>

/** Receives what a request says, in its order. */
export interface Visitor {
  /** Keys of attributes that are read; all others are skipped. */
  wanted: WantedKeys
  /** What follows is of this resource. */
  resource(attributes: Attributes): void
  record(record: TelemetryRecord): void
  /** A record that is too large to be read. */
  refuse(): void
}

export const newRecord = (): TelemetryRecord => ({
  ...{ name: '', at: 0, startedAt: 0, traceId: '', spanId: '', parentId: '', isError: false },
  ...{ attributes: new Map(), points: 1 },
})

/** Records of a request, more than a collector sends by default (8,192): each takes some hundred bytes until it is stored. */
export const maxRecords = 10_000
export const tooMany = new AppError(
  'too_large',
  `A request may have at most ${maxRecords} records: set a smaller batch size in the exporter.`,
)

/** Names and ids are shorter; what is longer is content. */
export const maxText = 200
/** Makes a text of a caller storable: PostgreSQL refuses NUL, and lone surrogates have no UTF-8 form. */
export const cleanText = (text: string, max = maxText): string => text.slice(0, max).replaceAll('\0', '').toWellFormed()

/** Status code of a span that failed (opentelemetry-proto, trace.proto). */
export const errorCode = 2
