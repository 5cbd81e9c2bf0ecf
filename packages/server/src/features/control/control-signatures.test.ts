import { createHash, createPublicKey, verify } from 'node:crypto'
import type { ControlKeys, ControlMessage } from '@wardline/contract'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ControlSigner } from '../../bus/control-signer.ts'
import { openTestService, type TestService } from '../../testing/service.ts'

let service: TestService
let x = ''
let count = 0
beforeAll(async () => {
  service = await openTestService()
  const { body } = await service.call<ControlKeys>('GET', '/.well-known/wardline-keys.json', { key: null })
  x = body.keys[0]!.x
})
afterAll(() => service[Symbol.asyncDispose]())

type Signed = Omit<ControlMessage, 'signature' | 'signature_ed25519'>

/** Verifies like an agent, with only the published key and the documented text. */
function isSigned(message: Signed, signature: string | undefined, key = x): boolean {
  const { instance_id, action, reason = '', version, issued_at } = message
  const text = `wardline-control-v1\n${instance_id}\n${action}\n${reason}\n${version}\n${issued_at}\n`
  const publicKey = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: key }, format: 'jwk' })
  return verify(null, Buffer.from(text), publicKey, Buffer.from(signature ?? '', 'base64url'))
}

async function newBot(): Promise<string> {
  const bot = `signed-${count++}`
  await service.call('POST', '/api/heartbeat', { body: { instance_id: bot, name: bot } })
  return bot
}

async function poll(bot: string, from = service, etag?: string) {
  const headers: Record<string, string> = etag === undefined ? {} : { 'if-none-match': etag }
  const answer = await from.call<{ suspended: boolean; reason: string | null }>('GET', `/api/instances/${bot}/status`, {
    headers,
  })
  const header = String(answer.headers['x-wardline-control'])
  const [, version, issued_at = '', signature] =
    /^version=(\d+); issued_at=([\d:.TZ-]+); signature=([\w-]{86})$/.exec(header) ?? []
  return { ...answer, header, version: Number(version), issued_at, signature }
}

const kill = (bot: string, reason: string) => service.call('POST', `/api/kill/${bot}`, { body: { reason } })

describe('the public key', () => {
  it('is readable without a key, as a JWK of RFC 8037, with its digest as id', async () => {
    const { status, body } = await service.call<ControlKeys>('GET', '/.well-known/wardline-keys.json', { key: null })
    const kid = createHash('sha256').update(Buffer.from(x, 'base64url')).digest('hex').slice(0, 16)
    expect(status).toBe(200)
    expect(Buffer.from(x, 'base64url')).toHaveLength(32)
    expect(body).toMatchObject({ keys: [{ kty: 'OKP', crv: 'Ed25519', x, kid, use: 'sig', alg: 'EdDSA' }] })
  })

  it('is derived from the master secret, and differs for another secret', () => {
    const { controlKey, controlSeed } = service.deps.secrets
    expect(new ControlSigner({ controlKey, controlSeed }).keys).toEqual(service.deps.controlSigner.keys)
    const other = new ControlSigner({ controlKey, controlSeed: controlKey })
    expect(other.keys.keys[0]!.x).not.toBe(x)
  })
})

describe('a control message', () => {
  it('is signed for agents on kill and resume, also when the reason contains line feeds', async () => {
    const bot = await newBot()
    const heard: ControlMessage[] = []
    service.deps.bus.onControl((message) => message.instance_id === bot && heard.push(message))
    await kill(bot, 'line one\nline two')
    await service.call('POST', `/api/resume/${bot}`)
    expect(heard.map(({ action }) => action)).toEqual(['suspend', 'resume'])
    for (const message of heard) expect(isSigned(message, message.signature_ed25519)).toBe(true)
  })

  // An attacker in the middle must not be able to change any field.
  it('has a signature that is invalid for any other message', () => {
    const message = fc.record({
      instance_id: fc.constantFrom('a', 'b', 'a-1'),
      action: fc.constantFrom('suspend' as const, 'resume' as const),
      reason: fc.constantFrom('', 'x', 'x\n1', 'x\n1\n2026-01-01T00:00:00.000Z\n', '1'),
      version: fc.nat(20),
      issued_at: fc.constantFrom('2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.001Z'),
    })
    fc.assert(
      fc.property(message, message, (one, other) => {
        const same = JSON.stringify(one) === JSON.stringify(other)
        expect(isSigned(other, service.deps.controlSigner.agentSignature(one))).toBe(same)
      }),
      { numRuns: 300 },
    )
  })
})

describe('the response to a poll', () => {
  it('is signed before the first kill, while suspended and after the resume, with 200 and with 304', async () => {
    const bot = await newBot()
    const steps = [
      { change: async () => {}, state: { action: 'resume' as const, version: 0 } },
      { change: () => kill(bot, 'line one\nline two'), state: { action: 'suspend' as const, version: 1 } },
      { change: () => service.call('POST', `/api/resume/${bot}`), state: { action: 'resume' as const, version: 2 } },
    ]
    for (const { change, state } of steps) {
      await change()
      const fresh = await poll(bot)
      const { version, issued_at, signature } = fresh
      expect(version).toBe(state.version)
      const reason = fresh.body.reason ?? ''
      expect(isSigned({ instance_id: bot, ...state, reason, issued_at }, signature)).toBe(true)
      const same = await poll(bot, service, `W/"${version}"`)
      expect([same.status, same.header]).toEqual([304, fresh.header])
    }
  })

  it('has the same signature from every process', async () => {
    const bot = await newBot()
    await using other = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
    const unchanged = await poll(bot)
    expect(await poll(bot, other)).toMatchObject({ status: 200, header: unchanged.header })
    await kill(bot, 'stop')
    service.clock.advance(5_000)
    const fresh = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
    const suspended = await poll(bot)
    expect(suspended.header).not.toBe(unchanged.header)
    expect(await poll(bot, fresh)).toMatchObject({ status: 200, header: suspended.header })
    await fresh[Symbol.asyncDispose]()
  })

  // At thousands of polls per second, one signature per poll would occupy a core.
  it('is signed once per change, not once per poll', async () => {
    const bot = await newBot()
    const { controlSigner } = service.deps
    const before = controlSigner.computed
    for (let turn = 0; turn < 50; turn++) await poll(bot)
    await kill(bot, 'stop')
    for (let turn = 0; turn < 50; turn++) await poll(bot, service, 'W/"1"')
    expect(controlSigner.computed - before).toBe(2)
  })
})
