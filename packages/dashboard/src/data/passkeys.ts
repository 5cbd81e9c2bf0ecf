import { queryOptions } from '@tanstack/react-query'
import type { Assertion, NewCredential } from '@wardline/contract'
import { call } from './client.ts'
import { queryKeys } from './query-keys.ts'
import { keepSessionSecret } from './storage.ts'

export const passkeysQuery = queryOptions({
  queryKey: queryKeys.passkeys,
  queryFn: ({ signal }) => call('listPasskeys', { signal }),
})

/** What browsers call their refusals. */
const sentences: Record<string, string> = {
  NotAllowedError: 'No passkey was used: the request was closed, took too long, or this device has none for this page.',
  InvalidStateError: 'This device already has a passkey for this service.',
  SecurityError: 'The passkeys of this service belong to another address: open it at WARDLINE_PUBLIC_URL.',
  NotSupportedError: 'This device cannot make a passkey that asks for a finger, face or PIN.',
}

async function asked(request: () => Promise<Credential | null>): Promise<unknown> {
  if (!isSecureContext) throw new Error('Browsers use passkeys only with https:// and on localhost.')
  if (typeof globalThis.PublicKeyCredential?.parseCreationOptionsFromJSON !== 'function') {
    throw new Error('This browser has no passkeys: update it, or sign in with a key.')
  }
  try {
    return ((await request()) as PublicKeyCredential).toJSON()
  } catch (fault) {
    throw new Error(sentences[(fault as Error).name] ?? (fault as Error).message)
  }
}

/** Lets the browser make a passkey, and registers it. */
export async function addPasskey(name: string): Promise<void> {
  const { options, secret } = await call('startPasskey', { body: { name } })
  const credential = await asked(() =>
    navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(options) }),
  )
  await call('addPasskey', { body: { secret, credential: credential as NewCredential } })
}

type RequestOptions = Awaited<ReturnType<typeof call<'startConfirmation'>>>['options']

const signed = (options: RequestOptions): Promise<unknown> =>
  asked(() => navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options) }))

/** Opens a session of the local admin by a passkey. */
export async function signInByPasskey(): Promise<void> {
  const { options, secret } = await call('startPasskeySignIn', {})
  const credential = (await signed(options)) as Assertion
  keepSessionSecret((await call('finishPasskeySignIn', { body: { secret, credential } })).secret)
}

/** Confirms the session by a passkey. */
export async function confirmByPasskey(): Promise<void> {
  const { options, secret } = await call('startConfirmation', {})
  const credential = (await signed(options)) as Assertion
  await call('confirmSession', { body: { secret, credential } })
}
