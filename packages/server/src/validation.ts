import { createRequire } from 'node:module'
import type { TSchema } from 'typebox'
import { AppError } from './errors.ts'

// Validates all external input against the contract: requests, batches, bus messages, and keys created by the command
// line.

const require = createRequire(import.meta.url)

/** A failed check, in Ajv's form. */
interface SchemaFault {
  keyword: string
  /** The field as a JSON pointer. */
  instancePath: string
  params: object
  message?: string | undefined
  parentSchema?: {
    properties?: Record<string, { enum?: unknown[] }>
    oneOf?: { properties: Record<string, { const: unknown }> }[]
    'x-rule'?: string
  }
}

interface SchemaCheck {
  (value: unknown): boolean
  errors?: SchemaFault[] | null
}

/**
 * Refuses a number in place of a string instead of converting it. `verbose`, because error sentences need the schema.
 * No schema validation, because the schemas are our own and validating them takes 50 ms.
 */
const customOptions = {
  coerceTypes: false,
  removeAdditional: false,
  useDefaults: false,
  verbose: true,
  validateSchema: false,
  discriminator: true,
  keywords: ['x-rule'],
}

/** One Ajv for the process, which compiles each schema once. */
let compile: ((route: { schema: TSchema }) => SchemaCheck) | undefined

/**
 * Returns a check that is compiled on first use. Compiling all checks at startup would take 100 ms, and 20 MiB for Ajv
 * and its output.
 */
export function lazyCheck(schema: TSchema): SchemaCheck {
  let check: SchemaCheck | undefined
  const checkLate: SchemaCheck = (value) => {
    compile ??= require('@fastify/ajv-compiler')()({}, { customOptions }) as NonNullable<typeof compile>
    check ??= compile({ schema })
    const isValid = check(value)
    checkLate.errors = check.errors ?? null
    return isValid
  }
  return checkLate
}

/**
 * Returns a function that explains in a sentence why a value is invalid; undefined for a valid one. `subject`: what the
 * sentence calls the value as a whole.
 */
export function faultFinder(schema: TSchema, subject?: string): (value: unknown) => string | undefined {
  const check = lazyCheck(schema)
  return (value) => (check(value) ? undefined : validationSentence(check.errors![0]!, subject))
}

/** Throws AppError `invalid` when the value is invalid. */
export function assertValid(schema: TSchema, value: unknown): void {
  const fault = faultFinder(schema)(value)
  if (fault !== undefined) throw new AppError('invalid', fault)
}

/** Returns the rule of a schema's pattern, as the rest of a sentence that starts with the field's name. */
export function patternRule(schema: object): string {
  return (schema as { 'x-rule': string })['x-rule']
}

const articles: Record<string, string> = {
  integer: 'a whole number',
  object: 'an object',
  array: 'an array',
  number: 'a number',
}

/** Names come from the caller, so error messages cut them to this length. */
const shownNameLength = 60

function joinChoices(values: readonly unknown[]): string {
  const names = values.map(String)
  return names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')}, or ${names.at(-1)}`
}

function missing({ parentSchema }: SchemaFault, name: string, path: string): string {
  const choices = parentSchema?.properties?.[name]?.enum
  const field = path ? `${path}.${name}` : name
  return choices ? `${field} must be ${joinChoices(choices)}; it is missing.` : `${field} is required.`
}

/** Formats a failed JSON Schema check (Ajv's form) as a sentence that names the field and the rule. */
export function validationSentence(fault: SchemaFault, subject = 'The body'): string {
  const params = fault.params as Record<string, unknown>
  const path = fault.instancePath.slice(1).replaceAll('/', '.')
  const field = path || subject
  switch (fault.keyword) {
    case 'required':
      return missing(fault, String(params.missingProperty), path)
    case 'type':
      return path
        ? `${field} must be ${articles[String(params.type)] ?? `a ${params.type}`}.`
        : `${field} must be a JSON ${params.type}.`
    case 'enum':
      return `${field} must be ${joinChoices(params.allowedValues as unknown[])}.`
    case 'discriminator': {
      const tag = String(params.tag)
      const choices = fault.parentSchema!.oneOf!.map(({ properties }) => properties[tag]!.const)
      const isMissing = params.tagValue === undefined
      return `${path ? `${path}.` : ''}${tag} must be ${joinChoices(choices)}${isMissing ? '; it is missing' : ''}.`
    }
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
      return `${field} ${patternRule(fault.parentSchema!)}.`
    case 'additionalProperties':
      return `${path ? `${path}.` : ''}${String(params.additionalProperty).slice(0, shownNameLength)} is not a known field.`
    case 'const':
      return `${field} must be ${params.allowedValue}.`
    case 'minProperties':
      return `${field} ${fault.parentSchema?.['x-rule'] ?? 'must contain at least one field'}.`
    case 'maxProperties':
      return `${field} ${fault.parentSchema?.['x-rule'] ?? `must contain at most ${params.limit} fields`}.`
    case 'format':
      return `${field} must be a valid ${params.format}.`
    default:
      return `${field} ${fault.message ?? 'is not valid'}.`
  }
}
