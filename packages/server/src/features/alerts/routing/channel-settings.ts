import {
  type ChannelSettings,
  type ChannelType,
  channelSettings,
  channelTypes,
  Type as Schema,
} from '@wardline/contract'
import { destinationFault } from '../../../egress/destination.ts'
import { AppError } from '../../../errors.ts'
import { urlFault, webhookSecretFault } from '../../../setting-faults.ts'
import { faultFinder } from '../../../validation.ts'

type AnySettings = ChannelSettings[ChannelType]

/** Wrapped so that sentences name each field by its whole path. */
const faultsOf = new Map(
  channelTypes.map((type) => [type, faultFinder(Schema.Object({ settings: channelSettings[type] }))]),
)

/** Settings for a channel that exists, as those of its type. Throws AppError `invalid`. */
export function settingsOfType(type: ChannelType, settings: object): AnySettings {
  const fault = faultsOf.get(type)!({ settings })
  if (fault !== undefined) throw new AppError('invalid', fault)
  return settings as AnySettings
}

/**
 * Checks what no schema can say of settings. Throws AppError `invalid` with a sentence that names the field and shows
 * nothing of its value. Where a URL leads is asked of the name service, so this must stay out of transactions.
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
