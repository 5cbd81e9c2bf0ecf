import { type ChannelType, channelKinds } from '@wardline/contract'

/** A form field for a setting of the contract. */
export interface SettingField {
  name: string
  label: string
  hint: string
  isRequired: boolean
  /** Masked while typing. */
  isSecret: boolean
  /** Several values, separated by commas. */
  isList: boolean
  /** Yes or no. */
  isFlag: boolean
  choices: readonly string[]
  maxLength: number | undefined
}

/** The part of JSON Schema that settings use. */
interface Schema {
  type?: string
  enum?: readonly string[]
  title?: string
  description?: string
  writeOnly?: boolean
  maxLength?: number
  items?: Schema
}

const labelOf = (name: string): string =>
  name === 'url' ? 'URL' : `${name[0]!.toUpperCase()}${name.slice(1).replaceAll('_', ' ')}`

/** Returns the form fields of a channel type. They come from the contract, so new types need no code here. */
export function settingFields(type: ChannelType): SettingField[] {
  const { properties, required = [] } = channelKinds[type].settings as unknown as {
    properties: Record<string, Schema>
    required?: readonly string[]
  }
  return Object.entries(properties).map(([name, schema]) => ({
    name,
    label: schema.title ?? labelOf(name),
    hint: (schema.description ?? schema.items?.description ?? '').replaceAll('`', ''),
    isRequired: required.includes(name),
    isSecret: schema.writeOnly === true,
    isList: schema.type === 'array',
    isFlag: schema.type === 'boolean',
    choices: schema.type === 'boolean' ? ['no', 'yes'] : (schema.enum ?? []),
    maxLength: schema.type === 'array' ? undefined : schema.maxLength,
  }))
}

/** Reads the settings of a form, without empty optional fields. */
export function settingsOf(fields: readonly SettingField[], form: Pick<FormData, 'get'>): Record<string, unknown> {
  const entries = fields.flatMap(({ name, isList, isFlag }) => {
    const text = String(form.get(`setting ${name}`) ?? '').trim()
    const list = () => text.split(/\s*,\s*/).filter(Boolean)
    const value = isFlag ? text === 'yes' : isList ? list() : text
    return text === '' ? [] : [[name, value] as const]
  })
  return Object.fromEntries(entries)
}
