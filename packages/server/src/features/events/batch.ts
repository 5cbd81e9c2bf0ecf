import { limits } from '@wardline/contract'
import { AppError } from '../../errors.ts'
import { assertFewValues, assertStorable, bodyText, parseJson, trimJson } from '../../http/json.ts'
import type { Slices, WorkBudget } from '../../work-turns.ts'

/** An element of a batch: its value, or the sentence that says why it is not JSON. */
export type BatchItem = { value: unknown } | { fault: string }

/** Cost of parsing and checking a character, several times that of reading it. */
const unitsOfParsing = 20

const notAnArray = 'The body must be a JSON array of events.'
const tooMany = () => new AppError('invalid', `The body must contain at most ${limits.batchEvents} events.`)
const tooLong: BatchItem = { fault: `The event must have at most ${limits.bodyBytes / 1024} KiB.` }

function parseLine(line: string): BatchItem {
  try {
    return { value: parseJson(line) }
  } catch (fault) {
    return { fault: (fault as Error).message.replace('The body', 'The line') }
  }
}

function* parseLines(text: string, budget: WorkBudget): Slices<BatchItem[]> {
  const items: BatchItem[] = []
  for (let start = 0; start < text.length; ) {
    const found = text.indexOf('\n', start)
    const end = found === -1 ? text.length : found
    const line = trimJson(text.slice(start, end))
    start = end + 1
    budget.count(100 + line.length * unitsOfParsing)
    if (budget.isSliceOver()) yield
    if (line === '') continue
    if (items.length >= limits.batchEvents) throw tooMany()
    items.push(line.length > limits.bodyBytes ? tooLong : parseLine(line))
  }
  return items
}

function elementValue(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new AppError('invalid', notAnArray)
  }
}

function parseElement(text: string): BatchItem {
  try {
    assertFewValues(text)
    const value = elementValue(text)
    assertStorable(value, text)
    return { value }
  } catch (fault) {
    if (fault instanceof AppError && fault.message !== notAnArray) {
      return { fault: fault.message.replace('The body', 'The event') }
    }
    throw fault
  }
}

/** Finds the bounds of the elements of a JSON array. Elements are validated later, when they are parsed. */
function* elementsOf(text: string, budget: WorkBudget): Slices<[start: number, end: number][]> {
  const elements: [number, number][] = []
  const first = text.search(/[^ \t\n\r]/)
  if (text[first] !== '[') throw new AppError('invalid', notAnArray)
  const signs = /["[\]{},]/g
  signs.lastIndex = first + 1
  let depth = 0
  let start = first + 1
  for (let sign = signs.exec(text); sign !== null; sign = signs.exec(text)) {
    budget.count(40)
    if (budget.isSliceOver()) yield
    const character = sign[0]
    if (character === '"') {
      let end = text.indexOf('"', sign.index + 1)
      for (; end !== -1 && isEscaped(text, end); end = text.indexOf('"', end + 1)) {
        budget.count(40)
        if (budget.isSliceOver()) yield
      }
      signs.lastIndex = end === -1 ? text.length : end + 1
    } else if (character === '[' || character === '{') depth++
    else if (depth > 0) depth -= character === ',' ? 0 : 1
    else {
      elements.push([start, sign.index])
      if (elements.length > limits.batchEvents) throw tooMany()
      start = sign.index + 1
      if (character !== ',') break
    }
  }
  const isClosed = text[start - 1] === ']' && trimJson(text.slice(start)) === ''
  if (!isClosed) throw new AppError('invalid', notAnArray)
  const [only] = elements
  return elements.length === 1 && trimJson(text.slice(...only!)) === '' ? [] : elements
}

function isEscaped(text: string, place: number): boolean {
  let escapes = 0
  while (text[place - 1 - escapes] === '\\') escapes++
  return escapes % 2 === 1
}

/** Parses element by element, because a whole batch takes longer than the event loop may be blocked. */
function* parseArray(text: string, budget: WorkBudget): Slices<BatchItem[]> {
  const items: BatchItem[] = []
  for (const [start, end] of yield* elementsOf(text, budget)) {
    items.push(end - start > limits.bodyBytes ? tooLong : parseElement(text.slice(start, end)))
    budget.count((end - start) * unitsOfParsing)
    if (budget.isSliceOver()) yield
  }
  return items
}

/**
 * Parses the events of a batch body, in order. `isLines`: one event per line instead of a JSON array. Throws AppError
 * `invalid` if the body as a whole is unusable.
 */
export function* batchItems(bytes: Buffer, isLines: boolean, budget: WorkBudget): Slices<BatchItem[]> {
  const text = bodyText(bytes)
  const items = yield* isLines ? parseLines(text, budget) : parseArray(text, budget)
  if (items.length === 0) throw new AppError('invalid', 'The body must contain at least one event.')
  return items
}
