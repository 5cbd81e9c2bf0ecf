import { expect, test } from 'vitest'
import { newInstance, postEvent } from '../fleet.ts'
import { startService, until } from '../service.ts'
import { signIn, useScreens } from './browser.ts'

const screens = useScreens()

interface Summary {
  risk_score: number
  risk_points: Record<string, number>
  monitoring: { scout_active: boolean; agents_protected: number }
  attestations: unknown[]
}
const summary = async () => (await screens.service.call<Summary>('GET', '/api/public/trust', { key: null })).body

test('shows unknown as unknown, and then a score with its parts and the way it is computed', async () => {
  const { service } = screens
  const before = await screens.emptied()
  await before.goto('/trust')
  await before.getByText('Unknown risk').waitFor()
  await before.getByText('No agent is monitored yet.').waitFor()
  await newInstance(service)
  await postEvent(service, { severity: 'breach', event_type: 'note' })
  // The service renews the summary after five seconds, and sweeps the fleet every thirty.
  const { risk_score, risk_points } = await until(
    'a score',
    summary,
    ({ risk_score: score, monitoring, attestations }) =>
      score > 0 && monitoring.scout_active && monitoring.agents_protected > 0 && attestations.length > 0,
    120_000,
  )
  // Another profile, because this one caches the first response for a minute.
  const page = await screens.emptied()
  await page.goto('/trust')
  await page.getByRole('img', { name: `${risk_score} of 100` }).waitFor()
  await page.getByText(`${risk_points.breach} points from breaches.`).waitFor()
  await page.getByText('How the score is computed').click()
  await page.getByRole('row', { name: /^breaches 30 days, weight halves every 7 days 95 \d+$/ }).waitFor()
  await page.getByText(/^Updated \d+ s ago/).waitFor()
  // Every score has its direction beside it: an attestation counts the other way round.
  await page.getByText('High risk (0 is best)').waitFor()
  const [{ score }] = (await summary()).attestations as [{ score: number }]
  await page.getByRole('cell', { name: `${score} (security, 100 is best)` }).waitFor()
  await page.getByRole('row', { name: 'Status pending This fleet has no agent id on a chain.' }).waitFor()
  expect(await page.getByRole('link', { name: 'Dashboard' }).count()).toBe(0)
  // With an attestation the page fits a phone too.
  const desktop = page.viewportSize()!
  await page.setViewportSize({ width: 390, height: 844 })
  await until(
    'the page to fit its width',
    () => page.evaluate<number>('document.documentElement.scrollWidth - innerWidth'),
    (excess) => excess <= 0,
    10_000,
  )
  await page.setViewportSize(desktop)
  const verify = page.getByRole('button', { name: /^Verify the hash of \d{4}-W\d\d, posture.weekly$/ })
  await verify.click()
  await page.getByText('Hash matches').waitFor()
  // Simulates a service that altered its attested data.
  await page.route('**/api/public/trust', async (route) => {
    const answer = await route.fetch()
    const body = (await answer.json()) as { attestations: { score: number }[] }
    for (const attestation of body.attestations) attestation.score = 100
    await route.fulfill({ response: answer, json: body })
  })
  await page.reload()
  await verify.click()
  await page.getByText('Hash does NOT match').waitFor()
})

test('labels the verification as self-attested, with its transactions and the hash of its report', async () => {
  const report = JSON.stringify({ request_hash: '0xab', unified_risk_score: 30, response: 70 })
  const page = await screens.emptied()
  let posted = report
  await page.route('**/api/public/trust', async (route) => {
    const answer = await route.fetch()
    const body = (await answer.json()) as { verification: object; chain: object }
    const explorer = 'https://blockscan.com/tx/0x1'
    const on_chain = {
      request_hash: '0xab',
      request_tx_hash: '0x1',
      response_tx_hash: '0x1',
      request_explorer_url: explorer,
      response_explorer_url: explorer,
      submitted_at: '2026-01-15T12:00:00.000Z',
      validation_registry: '0x2',
      report: posted,
    }
    const scores = {
      wav: { applicable: true, risk_score: 30, notes: 'The certificate expires soon.' },
      wv: {
        ...{ applicable: false, risk_score: 0, notes: 'Not compared with a list.' },
        ...{ error: 'VerificationFailed', error_code: '0x04' },
      },
    }
    const covered = { subject: 'agent', scored: ['wav'], not_checked: ['wv', 'mcv'] }
    const checked = { ...covered, self_attested: true, checked_at: '2026-01-15T12:00:00.000Z', unified_risk_score: 30 }
    body.verification = { ...body.verification, ...checked, scores, on_chain }
    await route.fulfill({ response: answer, json: body })
  })
  await page.goto('/trust')
  await page.getByText('self-assessed by this service').waitFor()
  await page.getByRole('row', { name: 'Web application 30 (risk, 0 is best) The certificate expires soon.' }).waitFor()
  const unscored = 'Wallet unknown Not compared with a list. Error VerificationFailed (0x04).'
  await page.getByRole('row', { name: unscored }).waitFor()
  await page.getByRole('row', { name: 'Not checked Media' }).waitFor()
  await page.getByRole('row', { name: /^Combined 30 .* over the web application only, checked 2026-01-15$/ }).waitFor()
  const link = page.getByRole('link', { name: /^response/ })
  expect(await link.getAttribute('href')).toBe('https://blockscan.com/tx/0x1')
  const verify = page.getByRole('button', { name: 'Verify the posted report' })
  await verify.click()
  await page.getByText('Report consistent: risk 30 (0 is best), posted as response 70 (100 is best)').waitFor()
  // A report with two contradictory numbers.
  posted = report.replace('"response":70', '"response":30')
  await page.reload()
  await verify.click()
  await page.getByText('Report contradicts itself').waitFor()
})

test('says on which chain an identity and attestations are, who signed them and what the status means', async () => {
  const page = await screens.emptied()
  const [wallet, earlier, derived] = ['a', 'b', 'd'].map((digit) => `0x${digit.repeat(40)}`) as [string, string, string]
  const id = `0x${'c'.repeat(64)}`
  const network = {
    id: 'eip155:84532',
    name: 'Base Sepolia',
    is_test_network: true,
    explorer_url: 'https://explorer.example',
  }
  const signedBy = (attester: string) => ({
    type: 'Posture',
    title: 'Weekly security posture',
    summary: 'Low risk. Security score 90/100',
    hash_preview: `${attester.slice(0, 6)}...cccc`,
    hash: id,
    at: '2026-01-15T12:00:00.000Z',
    period: '2026-W03',
    score: 90,
    on_chain: {
      explorer_url: `https://explorer.example/tx/${id}`,
      attestation_url: 'https://eas.example/attestation',
      attester,
      network,
    },
  })
  await page.route('**/api/public/trust', async (route) => {
    const answer = await route.fetch()
    const body = (await answer.json()) as { identity: object }
    const identity = { ...body.identity, agent_id: '7', wallet_address: wallet, status: 'unverified', network }
    const { on_chain: _, ...unsent } = signedBy(derived)
    const off_chain = {
      uid: id,
      attester: derived,
      chain: 'eip155:84532',
      contract: wallet,
      url: 'https://evil.example',
    }
    const attestations = [signedBy(wallet), signedBy(earlier), { ...unsent, off_chain }]
    await route.fulfill({ response: answer, json: { ...body, identity, attestations } })
  })
  await page.goto('/trust')
  await page.getByRole('row', { name: 'Status unverified The registry on the chain names another wallet' }).waitFor()
  const warning = 'on Base Sepolia, a test network: entries there cost nothing and can disappear'
  await page
    .getByRole('row', { name: /^Agent 7 in the registry/ })
    .getByText(warning)
    .waitFor()
  await page.getByText(`issued weekly by the operators of this fleet, ${warning}`).waitFor()
  const signer = page.getByRole('cell', { name: /self: the wallet of this fleet$/ })
  expect(await signer.getByRole('link').getAttribute('href')).toBe(`https://explorer.example/address/${wallet}`)
  expect(await signer.locator('.mono').getAttribute('title')).toBe(wallet)
  await page.getByRole('cell', { name: /^0xbbbb…bbbb .*self: an earlier wallet of this fleet$/ }).waitFor()
  const offChain = page.getByRole('cell', {
    name: /^0xdddd…dddd self: a key of this deployment, which names no operator/,
  })
  const file = offChain.getByRole('link', { name: 'Signed file' })
  // Only its uid is of the summary, so the page cannot be made to link another site.
  expect(await file.getAttribute('href')).toBe(`/api/public/trust/attestations/${id}`)
  const link = (name: RegExp) => page.getByRole('link', { name }).first().getAttribute('href')
  expect(await link(/^transaction/)).toBe(`https://explorer.example/tx/${id}`)
  expect(await link(/^attestation/)).toBe('https://eas.example/attestation')
})

test('shows attestations by others as published, with hidden characters of their texts made visible', async () => {
  const page = await screens.emptied()
  const attester = `0x${'d'.repeat(40)}`
  const network = { id: 'eip155:1', name: 'Ethereum', is_test_network: false, explorer_url: 'https://explorer.example' }
  const common = { attester, seen_at: '2026-01-16T12:00:00.000Z', contract: attester, network }
  const eas = { ...common, sink: 'eas', at: '2026-01-15T12:00:00.000Z', explorer_url: 'https://explorer.example/tx/1' }
  const feedback = { ...common, sink: 'feedback', at: null, explorer_url: 'javascript:alert(1)' }
  const items = [
    { ...eas, uid: '0x1', namespace: 'auditor.v1', tag: 'audit\u202e', period: '2026-W03', value: '87', decimals: 0 },
    { ...eas, uid: '0x2', schema: `0x${'e'.repeat(64)}`, attestation_url: 'https://eas.example/2' },
    { ...feedback, uid: '7', namespace: '<b>uptime</b>', tag: '', value: '-5', decimals: 2 },
  ]
  await page.route('**/api/public/trust', async (route) => {
    const answer = await route.fetch()
    const body = (await answer.json()) as object
    await route.fulfill({ response: answer, json: { ...body, attestations_by_others: items } })
  })
  await page.goto('/trust')
  const table = page.getByRole('region', { name: 'Attestations by others' })
  await table.getByText('by other accounts, which the operators of this fleet chose, on Ethereum').waitFor()
  const rows = table.getByRole('row')
  const row = async (index: number) => (await rows.nth(index).innerText()).replaceAll(/\s+/g, ' ')
  expect(await row(1)).toMatch(
    /^2026-01-15 auditor\.v1 · audit.*202E.* · 2026-W03 87 \(as the attester defines it\) 0xdddd…dddd ↗ EAS: transaction ↗ ?$/,
  )
  expect(await row(2)).toMatch(
    /^2026-01-15 no tags unknown schema 0xeeee…eeee none 0xdddd…dddd ↗ EAS: transaction ↗ attestation ↗$/,
  )
  // A service that is not honest could give any address: only those of https are links.
  expect(await row(3)).toMatch(
    /^2026-01-16 seen <b>uptime<\/b> -0\.05 \(as .* it\) 0xdddd…dddd ↗ feedback: registry, index 7 ?$/,
  )
  expect(await table.getByRole('link').count()).toBe(6)
})

test('embeds the badge, which runs nothing and loads nothing', async () => {
  const page = await screens.emptied()
  await page.goto('/trust/badge.svg')
  expect(await page.evaluate('document.documentElement.localName')).toBe('svg')
  expect(await page.evaluate('document.documentElement.getAttribute("aria-label")')).toMatch(/^agent risk: /)
  expect(await page.evaluate('document.querySelectorAll("script, a, image, use, foreignObject").length')).toBe(0)
})

test('is switched off as a whole: page, badges and summary', async () => {
  const service = await startService({ env: { TRUST_PUBLIC_ENABLED: 'false' } })
  try {
    const context = await screens.browser.newContext({ baseURL: service.baseUrl })
    const page = await context.newPage()
    const answer = await page.goto('/trust')
    expect(answer?.status()).toBe(404)
    await page.getByText('This service does not publish a trust summary').waitFor()
    for (const [path, status] of [
      ['/trust/badge.svg', 404],
      ['/trust/badge.json', 404],
      ['/api/public/trust', 503],
    ] as const) {
      expect((await service.call('GET', path, { key: null })).status, path).toBe(status)
    }
    // Other screens are unchanged.
    await signIn(page, service.key)
    await context.close()
  } finally {
    await service.stop()
  }
})

test('leads those who are signed in back to the dashboard', async () => {
  const page = await screens.signedIn()
  await page.goto('/trust')
  await page.getByRole('link', { name: 'Dashboard' }).click()
  await page.getByRole('navigation').first().waitFor()
  expect(new URL(page.url()).pathname).toBe('/')
})
