import type { FastifySchemaValidationError } from 'fastify'

const articles: Record<string, string> = {
  integer: 'a whole number',
  object: 'an object',
  array: 'an array',
  number: 'a number',
}

/** What a pattern of the contract asks for, in words. */
const patternRules: Record<string, string> = {
  '^[a-z0-9_-]+$': 'may hold only lower-case letters, digits, _ and -',
  '^[a-z0-9_]+$': 'may hold only lower-case letters, digits and _',
  '^[a-z0-9_-]+\\*?$': 'must be an instance id, or a prefix followed by *',
  '^[0-9]{1,15}$': 'must be a whole number',
  '^[0-9a-z]{8}$': 'must be a key id',
  '\\S': 'must not be blank',
}

function joinChoices(values: readonly unknown[]): string {
  const names = values.map(String)
  return names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')}, or ${names.at(-1)}`
}

function patternRule(pattern: string): string {
  if (pattern.startsWith('^[0-9a-f]{8}-')) return 'must be a UUID'
  if (pattern.startsWith('^\\d{4}-')) return 'must be an ISO 8601 instant'
  return patternRules[pattern] ?? 'does not have the expected form'
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
    case 'format':
      return `${field} must be a valid ${params.format}.`
    default:
      return `${field} ${fault.message ?? 'is not valid'}.`
  }
}
