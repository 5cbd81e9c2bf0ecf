import { expect } from 'vitest'
import type { Answer } from './call.ts'

export const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

export const isoTime = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z$/

/**
 * A refusal is `{ error: <sentence> }` and nothing else, with its code in the header x-error-code.
 * `naming` is what the sentence has to contain, usually the name of the field at fault.
 */
export function expectRefusal(answer: Answer, statuses: number | number[], naming?: string | RegExp): void {
  const context = `${answer.status} ${answer.text}`
  expect([statuses].flat(), context).toContain(answer.status)
  expect(answer.body, context).toEqual({ error: expect.stringMatching(/\S/) })
  expect(answer.headers['x-error-code'], context).toMatch(/^[a-z][a-z0-9_-]*$/)
  if (naming !== undefined) expect((answer.body as { error: string }).error, context).toMatch(naming)
}

/** The field names of an object, in a fixed order. */
export function fields(value: unknown): string[] {
  expect(value).toBeTypeOf('object')
  return Object.keys(value as object).sort()
}

export function expectCount(value: unknown): void {
  expect(Number.isInteger(value) && (value as number) >= 0, `a count: ${JSON.stringify(value)}`).toBe(true)
}
