import { expect, test } from 'vitest'
import { newInstance, postEvent, unique } from '../fleet.ts'
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
  for (const [page, placeholder] of [
    [desk, 'Filter by id, name, tag, version or reason  /'],
    [phone, 'Filter by id, name, tag, version or reason'],
  ] as const) {
    await page.goto('/fleet')
    expect(await page.getByRole('searchbox').getAttribute('placeholder')).toBe(placeholder)
  }
})

test.each([390, 1280])('at %d pixels the shortcuts open at their beginning, each key on one line', async (width) => {
  const page = await screens.signedIn({ width })
  await page.keyboard.press('?')
  const dialog = page.getByRole('dialog', { name: 'Shortcuts' })
  await dialog.getByRole('button', { name: 'Close' }).waitFor()
  const seen = async (part: ReturnType<typeof dialog.locator>) => (await part.boundingBox())!
  await expect.poll(() => page.evaluate('document.activeElement.ariaLabel')).toBe('Keys')
  const { y: top, height } = await seen(dialog)
  for (const part of [
    dialog.getByRole('heading', { name: 'Shortcuts' }),
    dialog.getByText(/^search agents, alerts/),
    dialog.getByRole('button', { name: 'Close' }),
  ]) {
    const box = await seen(part)
    expect(box.y).toBeGreaterThan(top)
    expect(box.y + box.height).toBeLessThan(top + height)
  }
  const heights = (await page.evaluate(
    '[...document.querySelectorAll("[role=dialog] td kbd")].map((key) => key.getClientRects().length)',
  )) as number[]
  expect(new Set(heights)).toEqual(new Set([1]))
})

test('on a phone the wallboard shows its titles whole', async () => {
  const id = await newInstance(screens.service, unique('a-name-that-is-longer-than-a-line'))
  await postEvent(screens.service, { severity: 'breach', event_type: 'data_export', instance_id: id, source: id })
  const page = await screens.signedIn({ width: 390, at: '/wallboard' })
  await page.getByRole('listitem').getByText(`${id} reports data_export`).waitFor()
  const cut = `[...document.querySelectorAll('main li b, main li b *')].filter((part) => part.scrollWidth > part.clientWidth + 1 && getComputedStyle(part).overflowX !== 'visible').length`
  expect(await page.evaluate(cut)).toBe(0)
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
