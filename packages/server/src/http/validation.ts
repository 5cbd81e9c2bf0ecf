import type { FastifySchemaValidationError } from 'fastify'
import type { TSchema } from 'typebox'
import { AppError } from '../errors.ts'
import { patternRule } from '../pattern-rules.ts'

const articles: Record<string, string> = {
  integer: 'a whole number',
  object: 'an object',
  array: 'an array',
  number: 'a number',
}

/** Names come from the caller: a sentence shows no more of them than helps. */
const shownNameLength = 60

function joinChoices(values: readonly unknown[]): string {
  const names = values.map(String)
  return names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')}, or ${names.at(-1)}`
}

interface Verbose {
  parentSchema?: { properties?: Record<string, { enum?: unknown[] }> }
}

function missing(fault: FastifySchemaValidationError, name: string, path: string): string {
  const choices = (fault as Verbose).parentSchema?.properties?.[name]?.enum
  const field = path ? `${path}.${name}` : name
  return choices ? `${field} must be ${joinChoices(choices)}; it is missing.` : `${field} is required.`
}

/** A failed JSON Schema check (Ajv's form) as a sentence that names the field and the rule. */
export function validationSentence(fault: FastifySchemaValidationError, context = 'body'): string {
  const params = fault.params as Record<string, unknown>
  const path = fault.instancePath.slice(1).replaceAll('/', '.')
  const field = path || (context === 'body' ? 'The body' : 'The request')
  switch (fault.keyword) {
    case 'required':
      return missing(fault, String(params.missingProperty), path)
    case 'type':
      return path
        ? `${field} must be ${articles[String(params.type)] ?? `a ${params.type}`}.`
        : `${field} must be a JSON ${params.type}.`
    case 'enum':
      return `${field} must be ${joinChoices(params.allowedValues as unknown[])}.`
    case 'minLength':
      return `${field} must not be empty.`
    case 'maxLength':
      return `${field} must have at most ${params.limit} characters.`
    case 'minItems':
    case 'maxItems':
      return `${field} must have ${fault.keyword === 'minItems' ? 'at least' : 'at most'} ${params.limit} entries.`
    case 'minimum':
    case 'maximum':
      return `${field} must be ${params.comparison} ${params.limit}.`
    case 'pattern':
      return `${field} ${patternRule(String(params.pattern))}.`
    case 'additionalProperties':
      return `${path ? `${path}.` : ''}${String(params.additionalProperty).slice(0, shownNameLength)} is not a known field.`
    case 'minProperties':
      return `${field} must contain at least one field.`
    case 'format':
      return `${field} must be a valid ${params.format}.`
    default:
      return `${field} ${fault.message ?? 'is not valid'}.`
  }
}

/** Validates what came by another way than HTTP by the same rules. Throws AppError `invalid`. */
export async function assertFits(schema: TSchema, value: unknown): Promise<void> {
  // Loaded when it is used: the service itself validates by what Fastify compiles.
  const { Errors } = await import('typebox/schema')
  const [, [fault]] = Errors(schema, value)
  if (fault) throw new AppError('invalid', validationSentence(fault as FastifySchemaValidationError))
}
