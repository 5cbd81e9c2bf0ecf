import { expect, it } from 'vitest'
import { TestAuthenticator } from '../../testing/authenticator.ts'
import { verifyNew } from './webauthn.ts'

const site = { origin: 'https://wardline.example', rpId: 'wardline.example' }
const challenge = Buffer.from('a challenge of the service').toString('base64url')

// Attack: who registers a passkey names the id of another one, which would then be that of the new key.
it('a passkey is registered only under the id that its authenticator gave it', async () => {
  const authenticator = new TestAuthenticator(site.origin)
  const created = authenticator.create({ challenge })
  expect(await verifyNew(created, { challenge, site })).toMatchObject({ credential_id: authenticator.id, counter: 0 })
  const { id } = new TestAuthenticator(site.origin)
  await expect(verifyNew({ ...created, id }, { challenge, site })).rejects.toThrow('the credential has another id')
})
