import { afterEach, beforeEach, expect, it } from 'vitest'
import { hourMs } from '../../clock.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { localActor } from './audit.ts'
import {
  createKeyList,
  currentSigningKey,
  isSignedBy,
  ownPublicKey,
  rotateSigningKey,
  signEvidence,
} from './signing-keys.ts'

let service: TestService
beforeEach(async () => {
  service = await openTestService()
})
afterEach(() => service[Symbol.asyncDispose]())

const current = () => currentSigningKey(service.deps, service.clock.now())
const rotate = (overlapHours = 24) =>
  rotateSigningKey(service.deps, { actor: localActor('cli'), overlapHours, now: service.clock.now() })

it('two processes that need the first key at the same time get the same one', async () => {
  const [one, other] = await Promise.all([current(), current()])
  expect(other!.kid).toBe(one!.kid)
  expect(await service.rows('select kid from signing_keys')).toEqual([{ kid: one!.kid }])
})

it('a key that cannot be stored is not used', async () => {
  const allow = await service.refuse('insert', 'signing_keys')
  await expect(current()).rejects.toThrow()
  await allow()
  expect((await current()).kid).toMatch(/^[0-9a-f]{16}$/)
})

it('a rotation replaces the key, ends the previous one after the overlap, and is in the audit log', async () => {
  const start = service.clock.now()
  const { kid, publicKey } = await current()
  service.clock.advance(hourMs)
  const next = await rotate(3)
  expect(next).toEqual({
    kid: (await current()).kid,
    algorithm: 'Ed25519',
    public_key: (await current()).publicKey,
    valid_from: new Date(start + hourMs).toISOString(),
    valid_until: null,
  })
  expect(await createKeyList(service.deps)()).toEqual([
    next,
    {
      kid,
      algorithm: 'Ed25519',
      public_key: publicKey,
      valid_from: new Date(start).toISOString(),
      valid_until: new Date(start + 4 * hourMs).toISOString(),
    },
  ])
  expect(await service.rows(`select action, actor, target, before, after from audit_log`)).toEqual([
    {
      action: 'signing_key.rotate',
      actor: 'cli',
      target: next.kid,
      before: JSON.stringify({ kid }),
      after: JSON.stringify({ kid: next.kid }),
    },
  ])
})

it('of two rotations at the same time one is refused', async () => {
  await current()
  const results = await Promise.allSettled([rotate(), rotate()])
  const refused = results.flatMap((result) => (result.status === 'rejected' ? [result.reason] : []))
  expect(refused).toMatchObject([
    { code: 'invalid', message: 'Another request rotated the signing key at the same time.' },
  ])
  expect(await service.rows('select kid from signing_keys')).toHaveLength(2)
})

it('a rotation that cannot be audited fails, and leaves the key', async () => {
  const { kid } = await current()
  await service.execute('alter table audit_log rename to hidden_log')
  await expect(rotate()).rejects.not.toMatchObject({ code: 'invalid' })
  await service.execute('alter table hidden_log rename to audit_log')
  expect((await current()).kid).toBe(kid)
})

it('the list of keys is read again after two seconds, and is the last one while the database is away', async () => {
  const list = createKeyList(service.deps)
  const first = await list()
  expect(first).toHaveLength(1)
  await rotate()
  expect(await list()).toEqual(first)
  service.clock.advance(2_001)
  expect(await list()).toHaveLength(2)
  await service.execute('alter table signing_keys rename to hidden_keys')
  service.clock.advance(2_001)
  expect(await list()).toHaveLength(2)
  expect(await createKeyList(service.deps)()).toEqual([])
  await service.execute('alter table hidden_keys rename to signing_keys')
})

it('a signature counts only for its kind, content and key, and nonsense is no signature', async () => {
  const key = await current()
  const content = Buffer.from('content')
  const signature = signEvidence(key, 'kind-a', content)
  expect(isSignedBy(key.publicKey, 'kind-a', content, signature)).toBe(true)
  expect(isSignedBy(key.publicKey, 'kind-b', content, signature)).toBe(false)
  expect(isSignedBy(key.publicKey, 'kind-a', Buffer.from('other'), signature)).toBe(false)
  expect(isSignedBy('no key', 'kind-a', content, signature)).toBe(false)
})

// An attacker with write access to the database replaces the public key by another one.
it('a key that was altered in the database is neither used nor recognized', async () => {
  const { kid, publicKey } = await current()
  expect(await ownPublicKey(service.deps, kid)).toBe(publicKey)
  expect(await ownPublicKey(service.deps, 'unknown')).toBeUndefined()
  await service.execute(`update signing_keys set public_key = 'x'`)
  await expect(current()).rejects.toThrow(`Signing key ${kid} was altered in the database.`)
  expect(await ownPublicKey(service.deps, kid)).toBeUndefined()
})
