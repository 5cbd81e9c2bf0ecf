import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectCount, expectRefusal, fields, isoTime } from './expectations.ts'
import { beat, createKeyDecoy, createPathDecoy, newInstance, postEvent, unique } from './fleet.ts'
import { isExternal, needsOwnProcess, type Service, startService, until } from './service.ts'
import type { TrustView } from './shapes.ts'

const tierOf = (score: number) =>
  score <= 20 ? 'low' : score <= 40 ? 'moderate' : score <= 60 ? 'elevated' : score <= 80 ? 'high' : 'critical'

const readTrust = async (service: Service, query = '') => {
  const answer = await service.call<TrustView>('GET', `/api/public/trust${query}`, { key: null })
  expect(answer.status, answer.text).toBe(200)
  return answer
}

if (isExternal) process.stdout.write(`Some trust tests are left out: ${needsOwnProcess}\n`)

describe('GET /api/public/trust', () => {
  let service: Service
  beforeAll(async () => {
    service = await startService(isExternal ? {} : { env: { TRUST_SNAPSHOT_SECONDS: '1' } })
  })
  afterAll(() => service?.stop())

  const scoreOnce = (what: string, score: number) =>
    until(
      what,
      async () => (await readTrust(service)).body.risk_score,
      (value) => value === score,
    )

  test.skipIf(isExternal)('scores a quiet fleet 0, one critical 22, and a breach beside it 73', async () => {
    expect((await readTrust(service)).body).toMatchObject({
      risk_score: 0,
      risk_tier: 'low',
      risk_tier_label: 'Low risk',
    })
    await postEvent(service, { severity: 'critical' })
    await scoreOnce('the score of one critical event', 22)
    await postEvent(service, { severity: 'breach' })
    await scoreOnce('the score of one critical event and one breach', 73)
    expect((await readTrust(service)).body).toMatchObject({ risk_tier: 'high' })
  })

  test('needs no key, may be cached for a minute and read from any origin', async () => {
    for (const origin of [undefined, 'https://status.example', 'null']) {
      const headers = origin === undefined ? {} : { origin }
      const answer = await service.call('GET', '/api/public/trust', { key: null, headers })
      expect(answer.status).toBe(200)
      expect(answer.headers['content-type']).toMatch(/^application\/json/)
      expect(answer.headers['cache-control']).toBe('public, max-age=60')
      expect(answer.headers['access-control-allow-origin']).toBe('*')
      expect(answer.headers['access-control-allow-credentials']).toBeUndefined()
      expect(answer.headers['set-cookie']).toBeUndefined()
    }
  })

  test('answers a preflight for any origin', async () => {
    const headers = { origin: 'https://status.example', 'access-control-request-method': 'GET' }
    const answer = await service.call('OPTIONS', '/api/public/trust', { key: null, headers })
    expect([200, 204]).toContain(answer.status)
    expect(answer.headers['access-control-allow-origin']).toBe('*')
  })

  test('is the only route that foreign pages may read', async () => {
    const headers = { origin: 'https://evil.example' }
    for (const path of ['/api/status', '/api/events', '/api/honeypots', '/metrics']) {
      const answer = await service.call('GET', path, { headers })
      expect(answer.headers['access-control-allow-origin'], path).toBeUndefined()
    }
  })

  test('has exactly the fields of the contract, each of its type', async () => {
    await newInstance(service)
    const { body } = await readTrust(service)
    expect(fields(body)).toEqual(
      [
        'generated_at',
        'risk_score',
        'risk_tier',
        'risk_tier_label',
        'monitoring',
        'metrics',
        'attestations',
        'identity',
        'verification',
        'chain',
        'source',
        // In addition to the contract: the parts of the score.
        'risk_points',
        'risk_method',
      ].sort(),
    )
    expect(body.generated_at).toMatch(isoTime)
    expectCount(body.risk_score)
    expect(body.risk_score).toBeLessThanOrEqual(100)
    expect(body.risk_tier).toBe(tierOf(body.risk_score))
    expect(body.risk_tier_label).toMatch(/\S/)
    expect(body.source).toBe('wardline')
    const metrics = ['blocked_24h', 'events_today', 'injection_blocks_24h', 'runtime_incidents_30d', 'threats_24h']
    expect(fields(body.metrics)).toEqual(metrics)
    for (const count of Object.values(body.metrics)) expectCount(count)
    expect(fields(body.chain)).toEqual(['erc8004_label', 'erc8004_status', 'erc8126_label', 'erc8126_status'])
    for (const text of Object.values(body.chain)) expect(text).toMatch(/\S/)
  })

  test('shows the monitoring with its times and counts', async () => {
    await newInstance(service)
    const { monitoring } = await until(
      'a first scan and heartbeat in the summary',
      async () => (await readTrust(service)).body,
      (body) => body.monitoring.last_scan_at !== null && body.monitoring.last_heartbeat_at !== null,
    )
    expect(fields(monitoring)).toEqual([
      'agents_active',
      'agents_protected',
      'agents_suspended',
      'last_heartbeat_at',
      'last_scan_at',
      'last_scan_relative',
      'scout_active',
    ])
    expect(monitoring.scout_active).toBe(true)
    expect(monitoring.last_scan_at).toMatch(isoTime)
    expect(monitoring.last_heartbeat_at).toMatch(isoTime)
    expect(monitoring.last_scan_relative).toMatch(/\S/)
  })

  test.skipIf(isExternal)('counts protected, active and suspended agents', async () => {
    const before = (await readTrust(service)).body.monitoring
    const [, , stopped] = [await newInstance(service), await newInstance(service), await newInstance(service)]
    await service.call('POST', `/api/kill/${stopped}`, { body: { reason: 'counted' } })
    await until(
      'three more agents, one of them suspended',
      async () => (await readTrust(service)).body.monitoring,
      (now) =>
        now.agents_protected >= before.agents_protected + 3 &&
        now.agents_active >= before.agents_active + 2 &&
        now.agents_suspended === before.agents_suspended + 1,
    )
  })

  test.skipIf(isExternal)('counts each event in every metric that it belongs to', async () => {
    const before = (await readTrust(service)).body.metrics
    await postEvent(service, { event_type: 'prompt_injection_detected', severity: 'warning' })
    await postEvent(service, { event_type: 'injection_blocked', severity: 'info' })
    await postEvent(service, { event_type: 'egress_blocked', severity: 'critical' })
    await postEvent(service, { event_type: 'upload_blocked', severity: 'info' })
    await postEvent(service, { event_type: 'policy_note', severity: 'breach', metadata: { blocked: true } })
    await postEvent(service, { event_type: 'policy_note', severity: 'info', metadata: { blocked: 'true' } })
    await until(
      'the metrics of six more events',
      async () => (await readTrust(service)).body.metrics,
      (now) => now.events_today >= before.events_today + 6,
    )
    expect((await readTrust(service)).body.metrics).toEqual({
      injection_blocks_24h: before.injection_blocks_24h + 2,
      runtime_incidents_30d: before.runtime_incidents_30d + 2,
      events_today: before.events_today + 6,
      threats_24h: before.threats_24h + 3,
      blocked_24h: before.blocked_24h + 5,
    })
  })

  test.skipIf(isExternal)('shows an unregistered identity as pending and the statuses by their defaults', async () => {
    const { identity, chain } = (await readTrust(service)).body
    expect(identity).toEqual({
      registered: false,
      slug: 'wardline',
      name: 'Wardline',
      agent_id: null,
      agent_registry: null,
      wallet_address: null,
      registry_explorer_url: expect.stringMatching(/^https:\/\//),
      register_tx_url: null,
      status: 'pending',
    })
    expect(chain).toMatchObject({ erc8004_status: 'registering', erc8126_status: 'enterprise' })
  })

  test('shows a verification that equals the runtime score while nothing is assessed', async () => {
    const { risk_score, risk_tier, risk_tier_label, verification } = (await readTrust(service)).body
    const unassessed = { applicable: false, risk_score: 0, notes: 'Not assessed.' }
    const nothing = {
      request_hash: null,
      request_tx_hash: null,
      response_tx_hash: null,
      request_explorer_url: null,
      response_explorer_url: null,
      submitted_at: null,
    }
    expect(verification).toEqual({
      unified_risk_score: risk_score,
      unified_risk_tier: risk_tier,
      unified_risk_tier_label: risk_tier_label,
      scores: { wav: unassessed, wv: unassessed },
      on_chain: nothing,
      spec_url: expect.stringMatching(/^https:\/\//),
    })
  })

  test('attests its posture with a preview of the hash and without on_chain until it is submitted', async () => {
    const { attestations } = await until(
      'a first attestation',
      async () => (await readTrust(service)).body,
      (body) => body.attestations.length > 0,
    )
    expect(attestations.length).toBeLessThanOrEqual(20)
    for (const attestation of attestations) {
      expect(fields(attestation)).toEqual(expect.arrayContaining(['at', 'hash_preview', 'summary', 'title', 'type']))
      expect(attestation).not.toHaveProperty('on_chain')
      for (const text of [attestation.type, attestation.title, attestation.summary]) expect(text).toMatch(/\S/)
      expect(attestation.hash_preview).toMatch(/^[0-9a-fx]{6}(…|\.\.\.)[0-9a-f]{4}$/)
      expect(attestation.at).toMatch(isoTime)
    }
  })

  // The response is public: no text of an agent's records may appear in it or on other public pages.
  test('shows nothing of events, instances, sessions, addresses, decoys or reasons', async () => {
    const canary = unique('canary').replaceAll('-', '')
    const instanceId = `${canary}-instance`
    await beat(service, instanceId)
    const named = { instance_id: instanceId, name: `${canary} name`, agent_type: `${canary} type`, version: canary }
    await service.call('POST', '/api/heartbeat', { body: named })
    await postEvent(service, {
      severity: 'breach',
      source: `${canary} source`,
      event_type: `${canary}_type`,
      description: `${canary} description`,
      instance_id: instanceId,
      session_id: `${canary}-session`,
      metadata: { [`${canary}_key`]: `${canary} value`, toolName: `${canary}-tool` },
      ip_address: '203.0.113.217',
    })
    const decoy = await createKeyDecoy(service, instanceId, 'github')
    await createPathDecoy(service, instanceId, `/srv/${canary}/secret.env`)
    await service.call('POST', `/api/kill/${instanceId}`, { body: { reason: `${canary} reason` } })
    const before = (await readTrust(service)).body.generated_at
    const later = await until(
      'a newer snapshot',
      () => readTrust(service),
      (answer) => answer.body.generated_at > before,
      isExternal ? 60_000 : 8_000,
    )
    const texts: Record<string, string> = { trust: later.text + JSON.stringify(later.headers) }
    for (const path of ['/healthz', '/readyz', '/metrics', '/openapi.json', '/docs', '/api/public/nothing']) {
      texts[path] = (await service.call('GET', path, { key: null })).text
    }
    for (const [place, text] of Object.entries(texts)) {
      for (const secret of [canary, '203.0.113.217', decoy.key, decoy.id, service.key, '127.0.0.1']) {
        if (place !== 'trust' && secret === '127.0.0.1') continue
        expect(text.includes(secret), `${secret} in ${place}`).toBe(false)
      }
    }
  })

  test('serves all callers the same snapshot, whatever the query asks', async () => {
    const pairs = await until(
      'two answers from one snapshot',
      async () => {
        const query = '?instance_id=x&since=0&fresh=true&callback=alert'
        const [plain, asked] = await Promise.all([readTrust(service), readTrust(service, query)])
        return [plain.body, asked.body] as const
      },
      ([plain, asked]) => plain.generated_at === asked.generated_at,
    )
    expect(pairs[1]).toEqual(pairs[0])
  })
})

describe.skipIf(isExternal)('a configured trust summary', () => {
  test('shows the configured name and statuses', async () => {
    const service = await startService({
      env: {
        TRUST_SLUG: 'fleet-seven',
        TRUST_NAME: 'Fleet Seven',
        TRUST_ERC8004_STATUS: 'planned',
        TRUST_ERC8126_STATUS: 'live',
      },
    })
    const { identity, chain, source } = (await readTrust(service)).body
    expect(identity).toMatchObject({ slug: 'fleet-seven', name: 'Fleet Seven', registered: false })
    expect(chain).toMatchObject({ erc8004_status: 'planned', erc8126_status: 'live' })
    expect(source).toBe('wardline')
    await service.stop()
  })

  test('answers 503 to every request once it is disabled', async () => {
    const service = await startService({ env: { TRUST_PUBLIC_ENABLED: 'false' } })
    for (const key of [null, service.key, 'nonsense']) {
      for (const headers of [{}, { origin: 'https://status.example' }, { 'if-none-match': '*' }]) {
        const answer = await service.call('GET', '/api/public/trust', { key, headers })
        expectRefusal(answer, 503)
        expect(answer.headers['cache-control'] ?? '').not.toContain('public')
      }
    }
    expect((await service.call('GET', '/api/status')).status).toBe(200)
    await service.stop()
  })
})
