import type { Page } from 'playwright-core'
import { beforeAll, expect, test } from 'vitest'
import { postEvent, unique } from '../fleet.ts'
import { isExternal } from '../service.ts'
import { nowhereYet, settled, useScreens } from './browser.ts'

const screens = useScreens({ WARDLINE_ALERT_ALLOW_CIDRS: '127.0.0.0/8' })

/** Ids that begin alike: cut at the end they would all look the same. */
const common = `billing-assistant-of-the-payments-${unique('x').slice(-4)}`
const ids = ['01', '02', '03'].map((number) => `${common}-${number}`)
let containmentId = ''

beforeAll(async () => {
  const { service } = screens
  if (isExternal || !service) return
  await service.call('POST', '/api/alert-channels', {
    body: { name: 'Nowhere', type: 'webhook', daily_check: false, settings: { url: 'http://127.0.0.1:1029/' } },
  })
  for (const id of ids) {
    const { status, text } = await service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id } })
    expect(status, text).toBe(200)
    await postEvent(service, { severity: 'critical', event_type: 'policy_violation', instance_id: id, source: id })
  }
  const { body, text } = await service.call<{ id: string }>('POST', '/api/containments', {
    body: { action: 'suspend', confirm: 'suspend 3 agents', reason: 'Billing is wrong', selector: { instances: ids } },
  })
  expect(body.id, text).toBeDefined()
  containmentId = body.id
})

/** For each place that shows the id: whether its end is really seen, its tooltip, and what a selection of it copies. */
const placesOf = (
  id: string,
) => `((isCut) => [...document.querySelectorAll('main bdi[title="${id}"]')].filter(isCut).map((place) => {
  place.scrollIntoView({ block: 'center' })
  const { left, right, top, bottom } = place.lastElementChild.lastElementChild.getBoundingClientRect()
  const isSeen = [left + 1, right - 1].every((x) => {
    const hit = document.elementFromPoint(x, (top + bottom) / 2)
    return place.contains(hit) || hit?.contains(place)
  })
  const isWithin = [...(function* () { for (let e = place.parentElement; e; e = e.parentElement) yield e })()]
    .filter((element) => getComputedStyle(element).overflowX !== 'visible')
    .every((element) => right <= element.getBoundingClientRect().right + 1)
  getSelection().selectAllChildren(place)
  return { isSeen, isWithin, shown: place.lastElementChild.textContent, copied: getSelection().toString().trim() }
}))((place) => place.lastElementChild?.ariaHidden === 'true' && place.getClientRects().length > 0)`
interface Place {
  isSeen: boolean
  isWithin: boolean
  shown: string
  copied: string
}

async function expectDistinct(page: Page): Promise<void> {
  await settled(page)
  for (const id of ids) {
    await page.locator(`main bdi[title="${id}"]`).filter({ visible: true }).first().waitFor()
    const places = (await page.evaluate(placesOf(id))) as Place[]
    expect(places.length).toBeGreaterThan(0)
    for (const place of places) expect(place).toEqual({ isSeen: true, isWithin: true, shown: id, copied: id })
  }
}

test.each([
  ['the fleet', () => '/fleet'],
  ['the overview', () => '/'],
  ['the events', () => '/events'],
  ['the alerts', () => '/alerts?severity=critical'],
  ['a containment', () => `/containments/${containmentId}`],
] as [string, () => string][])('at 900 pixels, ids that begin alike differ by their ends in %s', async (_name, at) => {
  const page = await screens.signedIn({ at: nowhereYet, width: 900 })
  await page.goto(at())
  await expectDistinct(page)
  // A screen reader hears the whole id, once.
  const link = page.getByRole('link', { name: new RegExp(`^${ids[0]}( |$)`) })
  if (!at().startsWith('/events')) await link.first().waitFor()
  else await page.getByRole('button', { name: new RegExp(`critical ${ids[0]} reports`) }).waitFor()
})
