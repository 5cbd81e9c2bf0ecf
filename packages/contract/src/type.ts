import type { TSchema, Type as Typebox } from 'typebox'

// TypeBox's own builder loads 370 modules and costs every process a tenth of a second and 10 MiB. Its types work
// without it.

type Options = Record<string, unknown>
type Properties = Record<string, TSchema>

/** Schemas of optional properties. */
const optional = new WeakSet<object>()

function object(properties: Properties, options?: Options) {
  const required = Object.keys(properties).filter((name) => !optional.has(properties[name]!))
  return { type: 'object', ...(required.length > 0 ? { required } : {}), properties, ...options }
}

function asOptional(schema: TSchema) {
  const copy = { ...schema }
  optional.add(copy)
  return copy
}

const ofType = (type: string) => (options?: Options) => ({ type, ...options })

/** Builds plain JSON Schemas (2020-12) with the types of TypeBox. */
export const Type = {
  Object: object,
  Optional: asOptional,
  String: ofType('string'),
  Integer: ofType('integer'),
  Number: ofType('number'),
  Boolean: ofType('boolean'),
  Null: ofType('null'),
  Unknown: (options?: Options) => ({ ...options }),
  Literal: (value: string | number | boolean, options?: Options) => ({ type: typeof value, const: value, ...options }),
  Array: (items: TSchema, options?: Options) => ({ type: 'array', items, ...options }),
  Union: (anyOf: TSchema[], options?: Options) => ({ anyOf, ...options }),
  Record: (_key: TSchema, value: TSchema, options?: Options) => ({
    type: 'object',
    patternProperties: { '^.*$': value },
    ...options,
  }),
  Unsafe: (schema: Options) => ({ ...schema }),
} as unknown as Pick<
  typeof Typebox,
  | 'Object'
  | 'Optional'
  | 'String'
  | 'Integer'
  | 'Number'
  | 'Boolean'
  | 'Null'
  | 'Unknown'
  | 'Literal'
  | 'Array'
  | 'Union'
  | 'Record'
  | 'Unsafe'
>
