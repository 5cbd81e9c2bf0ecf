import { expect, test } from 'vitest'
import { newInstance, unique } from '../fleet.ts'
import { nowhereYet, settled, useScreens } from './browser.ts'

const screens = useScreens()

test('hints for a mouse and a keyboard are shown where there are both, with the key of the system', async () => {
  await newInstance(screens.service)
  const desk = await screens.signedIn({ width: 900 })
  await desk.getByText('drag to zoom').waitFor()
  // The browser of the tests runs on Linux.
  expect(
    await desk
      .getByRole('button', { name: /^Search/ })
      .locator('kbd')
      .textContent(),
  ).toBe('Ctrl K')
  const phone = await screens.signedIn({ at: nowhereYet, width: 390 })
  await phone.goto('/')
  await phone.getByRole('heading', { name: 'Live events' }).waitFor()
  await settled(phone)
  expect(await phone.getByText('drag to zoom').isVisible()).toBe(false)
  expect(await phone.locator('main :is(button, a) kbd').filter({ visible: true }).count()).toBe(0)
})

test('no rate of events is shown before one has arrived', async () => {
  const page = await screens.signedIn({ at: nowhereYet })
  await page.goto('/events?event_type=nothing_of_this_type')
  await page.getByText('No matching events.').waitFor()
  expect(await page.getByText('events/s').count()).toBe(0)
})

test('a suggested reason is not accepted as it stands', async () => {
  const id = await newInstance(screens.service, unique('paused'))
  const page = await screens.signedIn({ at: `/fleet/${id}` })
  await page
    .getByRole('button', { name: /^Suspend/ })
    .first()
    .click()
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('button', { name: 'Maintenance' }).click()
  const reason = dialog.getByLabel('Reason')
  await dialog.getByRole('button', { name: /^Suspend/ }).click()
  expect(await reason.evaluate((area: { validationMessage: string }) => area.validationMessage)).toBe(
    'Add what happened, after the colon.',
  )
  const stateOf = async () =>
    (await screens.service.call<{ suspended: boolean }>('GET', `/api/instances/${id}/status`)).body.suspended
  expect(await stateOf()).toBe(false)
  await reason.fill('Maintenance: new disk')
  await dialog.getByRole('button', { name: /^Suspend/ }).click()
  await dialog.getByRole('list', { name: 'Stages' }).waitFor()
  expect(await stateOf()).toBe(true)
  // Words of the stages stay whole: each is one line high.
  await page.setViewportSize({ width: 900, height: 860 })
  const heights = (await page.evaluate(
    `[...document.querySelectorAll('[aria-label=Stages] b')].map((word) => word.getClientRects()[0].height > 0 && word.offsetHeight < 26)`,
  )) as boolean[]
  expect(heights.length).toBeGreaterThan(3)
  expect(heights.every(Boolean)).toBe(true)
})
