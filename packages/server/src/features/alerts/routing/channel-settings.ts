import { type ChannelSettings, type ChannelType, channelKinds, channelTypes, Type as Schema } from '@wardline/contract'
import { urlFault, webhookSecretFault } from '../../../config/setting-faults.ts'
import { destinationFault } from '../../../egress/destination.ts'
import { AppError } from '../../../errors.ts'
import { faultFinder } from '../../../validation.ts'

type AnySettings = ChannelSettings[ChannelType]

/** Wrapped, so that errors name each field by its full path. */
const faultsOf = new Map(
  channelTypes.map((type) => [type, faultFinder(Schema.Object({ settings: channelKinds[type].settings }))]),
)

/** Validates settings for an existing channel by its type. Throws AppError `invalid`. */
export function settingsOfType(type: ChannelType, settings: object): AnySettings {
  const fault = faultsOf.get(type)!({ settings })
  if (fault !== undefined) throw new AppError('invalid', fault)
  return settings as AnySettings
}

/**
 * Checks rules beyond the schema. Throws AppError `invalid` with a sentence that names the field, without its value. Must
 * not run in a transaction, because it resolves host names.
 */
export async function assertUsable(settings: AnySettings, allow: readonly string[]): Promise<void> {
  const fault = await faultBeyondSchema(settings as Partial<Texts>, allow)
  if (fault !== undefined) throw new AppError('invalid', fault)
}

interface Texts {
  url: string
  secret: string
}

async function faultBeyondSchema(
  { url, secret }: Partial<Texts>,
  allow: readonly string[],
): Promise<string | undefined> {
  const secretFault = secret === undefined ? undefined : webhookSecretFault(secret)
  if (secretFault !== undefined) return `settings.secret ${secretFault}.`
  if (url === undefined) return undefined
  const malformed = urlFault(url)
  if (malformed !== undefined) return `settings.url ${malformed}.`
  const forbidden = await destinationFault(url, allow)
  return forbidden === undefined ? undefined : `settings.url ${forbidden}`
}
