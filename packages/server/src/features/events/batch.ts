import { limits } from '@wardline/contract'
import { AppError } from '../../errors.ts'
import { assertStorable, bodyText, parseJson } from '../../http/json.ts'

/** One event of a batch: its value, or why it cannot be one. */
export type BatchItem = { value: unknown } | { fault: string }

function parseLine(line: string): BatchItem {
  try {
    return { value: parseJson(line) }
  } catch (fault) {
    return { fault: (fault as Error).message.replace('The body', 'The line') }
  }
}

function storable(value: unknown, mayHoldEscapes: boolean): BatchItem {
  try {
    assertStorable(value, mayHoldEscapes)
    return { value }
  } catch (fault) {
    return { fault: (fault as Error).message.replace('The body', 'The event') }
  }
}

function parseArray(text: string): BatchItem[] {
  let values: unknown
  try {
    values = JSON.parse(text)
  } catch {
    throw new AppError('invalid', 'The body must be a JSON array of events.')
  }
  if (!Array.isArray(values)) throw new AppError('invalid', 'The body must be a JSON array of events.')
  const mayHoldEscapes = text.includes('\\')
  return values.map((value) => storable(value, mayHoldEscapes))
}

/** The events of a batch body, in order. Throws AppError `invalid` when the body as a whole is unusable. */
export function batchItems(bytes: Buffer, contentType: string): BatchItem[] {
  const text = bodyText(bytes)
  const lines = contentType.startsWith('application/x-ndjson')
  const items = lines
    ? text
        .split('\n')
        .filter((line) => line.trim() !== '')
        .map(parseLine)
    : parseArray(text)
  if (items.length === 0) throw new AppError('invalid', 'The body must hold at least one event.')
  if (items.length > limits.batchEvents) {
    throw new AppError('invalid', `The body must hold at most ${limits.batchEvents} events.`)
  }
  return items
}
