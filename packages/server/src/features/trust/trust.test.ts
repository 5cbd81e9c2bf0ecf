import { createHash } from 'node:crypto'
import type { BadgeData, TrustSummary } from '@wardline/contract'
import { describe, expect, it } from 'vitest'
import { readConfig } from '../../config/config.ts'
import { attestationUrl } from '../../config/known-chains.ts'
import { listJobs } from '../../jobs.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { chainStatus, identityOf } from './identity.ts'
import { attestWeekly } from './trust.ts'

const dayMs = 86_400_000
const path = '/api/public/trust'
const trust = async (service: TestService, url = path) =>
  (await service.call<TrustSummary>('GET', url, { key: null })).body
const report = (service: TestService, severity: string, event_type = 'note') =>
  service.call('POST', '/api/events', { body: { severity, source: 's', event_type, description: 'x' } })
const beat = (service: TestService) => service.call('POST', '/api/heartbeat', { body: { instance_id: 'a', name: 'a' } })

describe('the snapshot', () => {
  it('is the same for all callers until it reaches the configured age', async () => {
    await using service = await openTestService({ env: { TRUST_SNAPSHOT_SECONDS: '60' } })
    const first = await service.call('GET', path, { key: null })
    expect(first.headers).toMatchObject({
      'cache-control': 'public, max-age=60',
      'access-control-allow-origin': '*',
      'content-type': 'application/json; charset=utf-8',
    })
    await report(service, 'breach')
    service.clock.advance(59_999)
    // The query must not matter: otherwise an attacker could get a fresh snapshot with each probe.
    for (const url of [path, `${path}?fresh=1`, `${path}?`]) {
      expect((await service.call('GET', url, { key: null })).text).toBe(first.text)
    }
    service.clock.advance(1)
    const next = await trust(service)
    expect(next.metrics.events_today).toBe(1)
    expect(next.generated_at).toBe(new Date(service.clock.now()).toISOString())
  })

  it('is rebuilt after the clock was set back', async () => {
    await using service = await openTestService({ env: { TRUST_SNAPSHOT_SECONDS: '3600' } })
    await trust(service)
    service.clock.jump(-dayMs)
    expect((await trust(service)).generated_at).toBe(new Date(service.clock.now()).toISOString())
  })

  it('is not reused after a failure', async () => {
    await using service = await openTestService()
    await service.deps.database.db.schema.alterTable('attestations').renameTo('hidden').execute()
    expect((await service.call('GET', path, { key: null })).status).toBe(500)
    await service.deps.database.db.schema.alterTable('hidden').renameTo('attestations').execute()
    expect((await service.call('GET', path, { key: null })).status).toBe(200)
  })
})

describe('the summary', () => {
  it('contains the points of each signal, which add up to the score', async () => {
    await using service = await openTestService()
    await beat(service)
    await service.call('POST', '/api/kill/a', { body: { reason: 'x' } })
    await report(service, 'critical')
    for (let count = 0; count < 25; count++) await report(service, 'warning')
    const { risk_score, risk_points, risk_method } = await trust(service)
    expect(risk_method).toBe('wardline-headroom-1')
    expect(Object.values(risk_points).reduce((sum, points) => sum + points, 0)).toBe(risk_score)
    expect(risk_points).toMatchObject({ breach: 0, injection: 0 })
    for (const part of ['critical', 'suspended', 'warning'] as const) expect(risk_points[part]).toBeGreaterThan(0)
  })

  // "Check it yourself" is only true with every field that the hash covers.
  it('publishes every field that the hash of an attestation covers', async () => {
    await using service = await openTestService()
    await beat(service)
    await attestWeekly(service.deps)
    const [attestation] = (await trust(service)).attestations
    const { namespace, type, title, summary, tag, score, at, period, hash } = attestation!
    const covered = { at, namespace, period, score, summary, tag, title, type }
    expect(hash).toBe(`0x${createHash('sha256').update(JSON.stringify(covered)).digest('hex')}`)
  })

  it('counts agents, events and incidents', async () => {
    await using service = await openTestService()
    for (const id of ['a', 'b', 'c']) {
      await service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id } })
    }
    await service.call('POST', '/api/kill/a', { body: { reason: 'x' } })
    service.clock.advance(91_000)
    await service.call('POST', '/api/heartbeat', { body: { instance_id: 'b', name: 'b' } })
    await report(service, 'critical')
    await report(service, 'warning', 'injection_blocked')
    await report(service, 'info', 'egress_blocked')
    await service.services.scout.sweep()
    service.clock.advance(90_000)
    const summary = await trust(service)
    expect(summary.monitoring).toMatchObject({
      scout_active: true,
      agents_protected: 3,
      agents_active: 1,
      agents_suspended: 1,
      last_scan_relative: '1 minute ago',
    })
    expect(summary.metrics).toEqual({
      injection_blocks_24h: 1,
      runtime_incidents_30d: 1,
      events_today: 3,
      threats_24h: 2,
      blocked_24h: 2,
    })
    expect(summary.risk_score).toBe(summary.verification.unified_risk_score)
    service.clock.advance(5_000)
    expect((await trust(service)).monitoring.scout_active).toBe(false)
  })

  it('has score 0 and no scan time for an empty service', async () => {
    await using service = await openTestService()
    const { monitoring, ...summary } = await trust(service)
    expect(summary).toMatchObject({ risk_score: 0, risk_tier: 'low', risk_tier_label: 'Low risk', attestations: [] })
    expect(monitoring).toMatchObject({ scout_active: false, last_scan_at: null, last_scan_relative: 'never' })
  })

  // The summary is public, so any name, address or text in it would be published.
  it('contains no reported value, and no paths except the allowed ones', async () => {
    const canary = (name: string) => `canary_${name}`
    await using service = await openTestService({ env: { TRUST_AGENT_ID: '7' } })
    await service.call('POST', '/api/heartbeat', {
      body: { instance_id: canary('instance'), name: canary('name'), agent_type: canary('type'), version: canary('v') },
    })
    await service.call('POST', '/api/events', {
      body: {
        severity: 'breach',
        source: canary('source'),
        event_type: canary('event'),
        description: canary('description'),
        instance_id: canary('instance'),
        session_id: canary('session'),
        ip_address: '203.0.113.77',
        metadata: { [canary('field')]: canary('value') },
      },
    })
    await service.call('POST', `/api/kill/${canary('instance')}`, { body: { reason: canary('reason') } })
    await service.call('POST', '/api/honeypots', {
      body: {
        instanceId: canary('instance'),
        type: 'file_path',
        path: `/srv/${canary('path')}`,
        label: canary('label'),
      },
    })
    await attestWeekly(service.deps)
    const summary = await trust(service)
    const text = JSON.stringify(summary)
    expect(text).not.toContain('canary')
    expect(text).not.toContain('203.0.113.77')
    const paths = (value: unknown, at = ''): string[] =>
      typeof value === 'object' && value !== null
        ? Object.entries(value).flatMap(([name, part]) => paths(part, `${at}.${/^\d+$/.test(name) ? '*' : name}`))
        : [at]
    expect([...new Set(paths(summary))].toSorted()).toMatchInlineSnapshot(`
      [
        ".attestations.*.at",
        ".attestations.*.hash",
        ".attestations.*.hash_preview",
        ".attestations.*.namespace",
        ".attestations.*.off_chain.attester",
        ".attestations.*.off_chain.chain",
        ".attestations.*.off_chain.contract",
        ".attestations.*.off_chain.uid",
        ".attestations.*.off_chain.url",
        ".attestations.*.period",
        ".attestations.*.score",
        ".attestations.*.summary",
        ".attestations.*.tag",
        ".attestations.*.title",
        ".attestations.*.type",
        ".chain.erc8004_label",
        ".chain.erc8004_status",
        ".chain.erc8126_label",
        ".chain.erc8126_status",
        ".generated_at",
        ".identity.agent_id",
        ".identity.agent_registry",
        ".identity.name",
        ".identity.network.explorer_url",
        ".identity.network.id",
        ".identity.network.is_test_network",
        ".identity.network.name",
        ".identity.register_tx_url",
        ".identity.registered",
        ".identity.registry_explorer_url",
        ".identity.slug",
        ".identity.status",
        ".identity.wallet_address",
        ".metrics.blocked_24h",
        ".metrics.events_today",
        ".metrics.injection_blocks_24h",
        ".metrics.runtime_incidents_30d",
        ".metrics.threats_24h",
        ".monitoring.agents_active",
        ".monitoring.agents_protected",
        ".monitoring.agents_suspended",
        ".monitoring.last_heartbeat_at",
        ".monitoring.last_scan_at",
        ".monitoring.last_scan_relative",
        ".monitoring.scout_active",
        ".risk_method",
        ".risk_points.breach",
        ".risk_points.critical",
        ".risk_points.incident",
        ".risk_points.injection",
        ".risk_points.suspended",
        ".risk_points.warning",
        ".risk_score",
        ".risk_tier",
        ".risk_tier_label",
        ".source",
        ".verification.on_chain.request_explorer_url",
        ".verification.on_chain.request_hash",
        ".verification.on_chain.request_tx_hash",
        ".verification.on_chain.response_explorer_url",
        ".verification.on_chain.response_tx_hash",
        ".verification.on_chain.submitted_at",
        ".verification.scores.wav.applicable",
        ".verification.scores.wav.notes",
        ".verification.scores.wav.risk_score",
        ".verification.scores.wv.applicable",
        ".verification.scores.wv.notes",
        ".verification.scores.wv.risk_score",
        ".verification.spec_url",
        ".verification.unified_risk_score",
        ".verification.unified_risk_tier",
        ".verification.unified_risk_tier_label",
      ]
    `)
  })
})

describe('identity', () => {
  const identity = (env: Record<string, string>) => {
    const config = readConfig(env)
    const identity = identityOf(config)
    return { ...identity, ...chainStatus(config, identity, { isPosted: false }) }
  }

  it('has the number of the agent as registries write it, and refuses one that none can have', () => {
    expect(identity({ TRUST_AGENT_ID: '007' })).toMatchObject({ agent_id: '7' })
    expect(() => identity({ TRUST_AGENT_ID: '9'.repeat(78) })).toThrow('must be a decimal number of 256 bits')
  })

  it('is pending without an agent id', () => {
    expect(identity({})).toMatchObject({
      registered: false,
      slug: 'wardline',
      name: 'Wardline',
      agent_id: null,
      agent_registry: null,
      wallet_address: null,
      register_tx_url: null,
      registry_explorer_url: 'https://sepolia.basescan.org/address/0x8004A818BFB912233c491871b3d84c89A494BD9e',
      status: 'pending',
      erc8004_status: 'registering',
      erc8004_label: 'No on-chain identity configured',
      erc8126_label: 'No ERC-8126 verification stored',
    })
  })

  // The id of any agent can be set: only the registry shows whose it is.
  it('is claimed, not registered, with an agent id that nothing proves, including id 0', () => {
    const wallet = `0x${'ab'.repeat(20)}`
    expect(identity({ TRUST_AGENT_ID: '0', TRUST_CHAIN_ID: '8453', TRUST_WALLET_ADDRESS: wallet })).toMatchObject({
      registered: false,
      agent_id: '0',
      agent_registry: 'eip155:8453:0x8004A169FB4a3325136EB29fA0ceB6D2e539a432',
      wallet_address: wallet,
      registry_explorer_url: 'https://basescan.org/address/0x8004A169FB4a3325136EB29fA0ceB6D2e539a432',
      status: 'claimed',
      erc8004_status: 'registering',
      erc8004_label: 'ERC-8004 identity claimed, not checked on the chain',
    })
  })

  // Money of a test network is free, so what stands there proves little.
  it.each([
    ['84532', { id: 'eip155:84532', name: 'Base Sepolia', is_test_network: true }, 'https://sepolia.basescan.org'],
    ['8453', { id: 'eip155:8453', name: 'Base', is_test_network: false }, 'https://basescan.org'],
    ['31337', { id: 'eip155:31337', name: 'eip155:31337', is_test_network: null }, 'https://blockscan.com'],
  ])('names chain %s, and whether it is a test network', (chain, network, explorer_url) => {
    const env = { TRUST_AGENT_ID: '7', TRUST_CHAIN_ID: chain, TRUST_ERC8004_REGISTRY: `0x${'1'.repeat(40)}` }
    expect(identity(env).network).toEqual({ ...network, explorer_url })
    const { TRUST_AGENT_ID: _, ...withoutIdentity } = env
    expect(identity(withoutIdentity)).not.toHaveProperty('network')
  })

  it('links attestations at the explorer of EAS, only those of the contract that it shows', () => {
    const [uid, eas] = [`0x${'ab'.repeat(32)}`, '0xc2679fbd37d54388ce493f1db75320d236e1815e']
    expect(attestationUrl(11155111, eas, uid)).toBe(`https://sepolia.easscan.org/attestation/view/${uid}`)
    expect(attestationUrl(11155111, `0x${'1'.repeat(40)}`, uid)).toBeUndefined()
    expect(attestationUrl(31337, eas, uid)).toBeUndefined()
  })

  // The label is public, so neither a default nor an operator's wording may promise what is not configured.
  it.each(['live', 'registering', 'planned'])(
    'is labelled as not configured even if the status is set to %s',
    (word) => {
      expect(identity({ TRUST_ERC8004_STATUS: word })).toMatchObject({
        erc8004_status: word,
        erc8004_label: 'No on-chain identity configured',
      })
    },
  )
})

describe('attestations', () => {
  it('are written once a week', async () => {
    await using service = await openTestService()
    await beat(service)
    await attestWeekly(service.deps)
    await attestWeekly(service.deps)
    expect(await service.rows('select tag from attestations')).toEqual([{ tag: 'posture.weekly' }])
    service.clock.advance(7 * dayMs - 1)
    await attestWeekly(service.deps)
    expect(await service.rows('select tag from attestations')).toHaveLength(1)
    service.clock.advance(1)
    await attestWeekly(service.deps)
    expect(await service.rows('select tag from attestations')).toHaveLength(2)
    const { attestations } = await trust(service)
    expect(attestations.map(({ at }) => at)).toEqual(
      [0, 7 * dayMs].map((ago) => new Date(service.clock.now() - ago).toISOString()),
    )
    expect(attestations[0]).toMatchObject({
      type: 'Posture',
      hash_preview: expect.stringMatching(/^0x[0-9a-f]{4}\.\.\.[0-9a-f]{4}$/),
    })
    expect(attestations[0]).not.toHaveProperty('on_chain')
  })

  it('are written once by two processes that attest at the same moment', async () => {
    await using service = await openTestService()
    await using other = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
    await beat(service)
    await Promise.all([service, other, service, other].map(({ deps }) => attestWeekly(deps)))
    expect(await service.rows('select tag from attestations')).toEqual([{ tag: 'posture.weekly' }])
  })

  it('are not written without a fleet or while they are disabled', async () => {
    await using service = await openTestService()
    let mayAttest = false
    const attesting = listJobs(service.deps, service.services, { mayAttest: () => mayAttest }).find(
      ({ name }) => name === 'attestations',
    )!
    await attestWeekly(service.deps)
    await beat(service)
    await attesting.run()
    expect(await service.rows('select tag from attestations')).toEqual([])
    await report(service, 'breach')
    mayAttest = true
    await attesting.run()
    const { risk_score, attestations } = await trust(service)
    expect(risk_score).toBeGreaterThan(0)
    expect(attestations.map(({ summary }) => summary)).toEqual([
      expect.stringContaining(`Security score ${100 - risk_score}/100`),
    ])
  })

  // "Clean" is a public claim, so the whole time must have been monitored.
  it('call the runtime clean only after 720 monitored hours without a critical event or a breach', async () => {
    await using service = await openTestService()
    await beat(service)
    const tags = async () => {
      service.clock.advance(7 * dayMs)
      await attestWeekly(service.deps)
      return (
        await service.rows<{ tag: string }>(
          `select tag from attestations where at = ${service.clock.now()} order by tag`,
        )
      ).map(({ tag }) => tag)
    }
    for (let week = 1; week <= 4; week++) expect(await tags()).toEqual(['posture.weekly'])
    expect(await tags()).toEqual(['posture.weekly', 'runtime.clean'])
    await report(service, 'warning')
    expect(await tags()).toEqual(['posture.weekly', 'runtime.clean'])
    await report(service, 'critical')
    for (let week = 1; week <= 4; week++) expect(await tags()).toEqual(['posture.weekly'])
    expect(await tags()).toEqual(['posture.weekly', 'runtime.clean'])
    await report(service, 'breach')
    expect(await tags()).toEqual(['posture.weekly'])
  })
})

describe('requests for the trust summary', () => {
  it('return 503 while it is disabled, as do preflights', async () => {
    await using service = await openTestService({ env: { TRUST_PUBLIC_ENABLED: 'false' } })
    for (const method of ['GET', 'OPTIONS'] as const) {
      const answer = await service.call<{ error: string }>(method, path, { key: null })
      expect(answer.status, method).toBe(503)
      expect(answer.body.error, method).toBe('The public trust summary is disabled.')
      expect(answer.headers['cache-control'] ?? 'no-store', method).toBe('no-store')
    }
  })

  it('are answered for preflights while it is enabled, without reflecting the origin', async () => {
    await using service = await openTestService()
    const answer = await service.call('OPTIONS', path, { key: null, headers: { origin: 'http://evil.example' } })
    expect(answer.status).toBe(204)
    expect(answer.headers['access-control-allow-origin']).toBe('*')
    expect(answer.headers).not.toHaveProperty('access-control-allow-credentials')
  })
})

describe('the badge', () => {
  const badge = async (service: TestService) => {
    const image = await service.call('GET', '/trust/badge.svg', { key: null })
    const data = await service.call<BadgeData>('GET', '/trust/badge.json', { key: null })
    return { image, data }
  }

  it('shows only the tier and score of the public summary', async () => {
    await using service = await openTestService({ env: { TRUST_NAME: '"><script>alert(1)</script>' } })
    await beat(service)
    await service.services.scout.sweep()
    await report(service, 'breach')
    service.clock.advance(5_000)
    const { risk_score, risk_tier } = await trust(service)
    const { image, data } = await badge(service)
    expect(data.body).toEqual({
      schemaVersion: 1,
      label: 'agent risk',
      message: `${risk_tier} · ${risk_score} of 100`,
      color: 'c2410c',
      isError: false,
    })
    expect(image.text).toContain(`aria-label="agent risk: ${risk_tier} · ${risk_score} of 100"`)
    expect(image.text).not.toMatch(/script|href|alert|on\w+=|url\(/)
    expect(image.headers).toMatchObject({
      'content-type': 'image/svg+xml; charset=utf-8',
      'cache-control': 'public, max-age=60',
      'content-security-policy': "default-src 'none'; sandbox",
      'cross-origin-resource-policy': 'cross-origin',
    })
    expect(data.headers).toMatchObject({ 'cache-control': 'public, max-age=60', 'access-control-allow-origin': '*' })
  })

  // A popular page with a badge causes thousands of requests. None of them may read the database again.
  it('uses the same snapshot as the summary, whatever the query', async () => {
    await using service = await openTestService({ env: { TRUST_SNAPSHOT_SECONDS: '60' } })
    await beat(service)
    await service.services.scout.sweep()
    const before = await badge(service)
    await report(service, 'breach')
    service.clock.advance(59_000)
    expect((await service.call('GET', '/trust/badge.svg?fresh=1', { key: null })).text).toBe(before.image.text)
    service.clock.advance(1_000)
    expect((await badge(service)).image.text).not.toBe(before.image.text)
  })

  // A green badge would vouch for a fleet that is not monitored.
  it('is unknown without an agent, without a sweep, or when the summary fails', async () => {
    await using service = await openTestService()
    const expectUnknown = async () => {
      const { image, data } = await badge(service)
      expect(image.status).toBe(200)
      expect(image.text).toContain('agent risk: unknown')
      expect(image.headers['cache-control']).toBe('no-store')
      expect(data.body).toMatchObject({ message: 'unknown', isError: true })
      service.clock.advance(60_000)
    }
    await service.services.scout.sweep()
    await expectUnknown()
    await beat(service)
    service.clock.advance(100_000)
    await expectUnknown()
    await service.services.scout.sweep()
    expect((await badge(service)).data.body).toMatchObject({ message: 'low · 0 of 100', isError: false })
    service.clock.advance(60_000)
    await service.deps.database.db.schema.alterTable('attestations').renameTo('hidden').execute()
    await expectUnknown()
  })

  it('says not published when the summary is disabled', async () => {
    await using service = await openTestService({ env: { TRUST_PUBLIC_ENABLED: 'false' } })
    const { image, data } = await badge(service)
    expect(image.status).toBe(404)
    expect(image.text).toContain('agent risk: not published')
    expect(data.status).toBe(404)
    expect(data.body).toEqual({ error: 'The public trust summary is disabled.' })
    for (const { headers } of [image, data]) expect(headers['cache-control']).toBe('no-store')
  })
})
