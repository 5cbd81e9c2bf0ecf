import { expect, test } from 'vitest'
import { newInstance } from '../fleet.ts'
import { useScreens } from './browser.ts'

// Here two seconds of silence prove a stop. No other test suspends agents of this service.
const screens = useScreens({ WARDLINE_SUSPENSION_SILENCE_SECONDS: '2' })

// The banner stood on every page for as long as two agents were suspended, and nobody read it any more.
test('a banner shows a suspension until it is proven, and then the navigation the number of suspended agents', async () => {
  const { service } = screens
  const [first, second] = [await newInstance(service), await newInstance(service)]
  const page = await screens.signedIn({ at: '/events' })
  const banner = page.locator('.banner')
  const link = page
    .getByRole('navigation', { name: 'Screens' })
    .first()
    .getByRole('link', { name: /^Fleet/ })
  const nameOfLink = async () => (await link.innerText()).replaceAll(/\s+/g, ' ')
  expect(await banner.count()).toBe(0)
  expect(await nameOfLink()).toBe('Fleet')

  for (const id of [first, second]) await service.call('POST', `/api/kill/${id}`, { body: { reason: 'as a test' } })
  await banner.getByText('2 suspended agents are not known to have stopped yet; they may still be working.').waitFor()
  await link.getByText('2 suspended').waitFor()
  // The queue of the overview names them, so the banner does not say it again.
  const overview = page.getByRole('link', { name: 'Overview' }).first()
  await overview.click()
  await page.getByText(`${first} has not confirmed its suspension`).waitFor()
  expect(await banner.count()).toBe(0)
  await page.goBack()
  await service.call('POST', `/api/instances/${first}/ack`, { body: { version: 1 } })
  await banner.getByText('1 suspended agent is not known to have stopped yet; it may still be working.').waitFor()
  await service.call('POST', `/api/instances/${second}/ack`, { body: { version: 1 } })
  await banner.waitFor({ state: 'detached' })
  expect(await nameOfLink()).toBe('Fleet 2 suspended')

  await page.getByRole('link', { name: 'Decoys' }).first().click()
  await page.waitForURL('**/decoys')
  expect(await banner.count()).toBe(0)
  await link.getByText('2 suspended').waitFor()
  for (const id of [first, second]) await service.call('POST', `/api/resume/${id}`, { body: {} })
  await link.getByText('suspended').waitFor({ state: 'detached' })
  expect(await nameOfLink()).toBe('Fleet')
  expect(await banner.count()).toBe(0)
})
