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
  // One direction on the whole page: an attestation of 9 points of safety is a risk of 91.
  expect((await page.getByRole('main').innerText()).match(/is best/g)).toEqual(['is best'])
  const [{ score }] = (await summary()).attestations as [{ score: number }]
  await page.getByRole('cell', { name: `${100 - score} attested as ${score} points of safety` }).waitFor()
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
      wv: { applicable: false, risk_score: 0, notes: 'No wallet is configured.' },
    }
    const checked = { self_attested: true, checked_at: '2026-01-15T12:00:00.000Z', unified_risk_score: 30 }
    body.verification = { ...body.verification, ...checked, scores, on_chain }
    await route.fulfill({ response: answer, json: body })
  })
  await page.goto('/trust')
  await page.getByText('self-assessed by this service').waitFor()
  await page.getByRole('row', { name: /^Web application 30 The certificate expires soon\.$/ }).waitFor()
  await page.getByRole('row', { name: /^Wallet unknown/ }).waitFor()
  const link = page.getByRole('link', { name: /^response/ })
  expect(await link.getAttribute('href')).toBe('https://blockscan.com/tx/0x1')
  const verify = page.getByRole('button', { name: 'Verify the posted report' })
  await verify.click()
  await page.getByText('Report consistent: risk 30, posted as response 70').waitFor()
  // A report with two contradictory numbers.
  posted = report.replace('"response":70', '"response":30')
  await page.reload()
  await verify.click()
  await page.getByText('Report contradicts itself').waitFor()
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
