import {
  type ChannelSettings,
  type ChannelType,
  channelSettings,
  channelTypes,
  Type as Schema,
} from '@wardline/contract'
import type { TSchema } from 'typebox'
import { destinationFault } from '../../../egress/destination.ts'
import { AppError } from '../../../errors.ts'
import { urlFault, webhookSecretFault } from '../../../setting-faults.ts'

/** The sentence that says why a value does not fit a schema; undefined when it does. */
export type Validate = (schema: TSchema, value: unknown) => string | undefined

/** Wrapped so that sentences name each field by its whole path. */
const wrapped = Object.fromEntries(
  channelTypes.map((type) => [type, Schema.Object({ settings: channelSettings[type] })]),
) as unknown as Record<ChannelType, TSchema>

/**
 * Settings from a request, as those of the type. Throws AppError `invalid` with a sentence that names the field and
 * shows nothing of its value. Where a URL leads is asked of the name service, so this must stay out of transactions.
 */
export async function checkSettings<Type extends ChannelType>(
  type: Type,
  given: unknown,
  { validate, allow }: { validate: Validate; allow: readonly string[] },
): Promise<ChannelSettings[Type]> {
  const fault = validate(wrapped[type], { settings: given }) ?? (await beyondSchema(given as Partial<Texts>, allow))
  if (fault !== undefined) throw new AppError('invalid', fault)
  return given as ChannelSettings[Type]
}

interface Texts {
  url: string
  secret: string
}

async function beyondSchema({ url, secret }: Partial<Texts>, allow: readonly string[]): Promise<string | undefined> {
  const secretFault = secret === undefined ? undefined : webhookSecretFault(secret)
  if (secretFault !== undefined) return `settings.secret ${secretFault}.`
  if (url === undefined) return undefined
  const malformed = urlFault(url)
  if (malformed !== undefined) return `settings.url ${malformed}.`
  const forbidden = await destinationFault(url, allow)
  return forbidden === undefined ? undefined : `settings.url ${forbidden}`
}
