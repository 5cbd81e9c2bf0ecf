import type { Page } from 'playwright-core'
import { beforeAll, expect, test } from 'vitest'
import { createPathDecoy, newInstance, postEvent, unique } from '../fleet.ts'
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
  // Beside those that never confirm, so that each kind of status is seen.
  const stopped = await newInstance(service, 'stopped')
  await service.call('POST', `/api/kill/${stopped}`, { body: { reason: 'Billing is wrong' } })
  await service.call('POST', `/api/instances/${stopped}/ack`, { body: { version: 1 } })
  await createPathDecoy(service, ids[1]!, '/srv/billing/.aws/credentials', 'AWS credentials of billing')
  const channel = {
    name: 'The receiver of the on-call phone',
    type: 'webhook',
    settings: { url: 'http://127.0.0.1:1029/' },
  }
  await service.call('POST', '/api/alert-channels', { body: channel })
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

/** Words that are broken, panels and groups that are wider than they show, and parts of a row that collide. */
const layoutFaults = `(() => {
  const faults = new Set()
  const range = document.createRange()
  const isSeen = (element) => element.checkVisibility() && !element.closest('.only-read, [aria-hidden], thead')
  const texts = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT)
  for (let text; (text = texts.nextNode()); ) {
    if (!isSeen(text.parentElement) || text.parentElement.closest('.cut')) continue
    for (const { 0: word, index } of text.data.matchAll(/(?<![^\\s(])[A-Za-z]{2,16}(?![^\\s,.;:)…])/g)) {
      range.setStart(text, index)
      range.setEnd(text, index + word.length)
      const lines = new Set([...range.getClientRects()].map(({ top }) => Math.round(top)))
      if (lines.size > 1) faults.add('broken: ' + word + ' in ' + text.parentElement.closest('td, section, div').textContent.slice(0, 60))
    }
  }
  for (const part of document.querySelectorAll('main section, main [role=group]'))
    if (isSeen(part) && part.scrollWidth > part.clientWidth + 1) faults.add('cut: ' + part.textContent.slice(0, 60))
  for (const svg of document.querySelectorAll('main [role=row] svg')) {
    const mark = svg.parentElement
    const right = mark.closest('[role=cell]').getBoundingClientRect().right
    if (isSeen(mark) && mark.getBoundingClientRect().right > right + 1) faults.add('cut: ' + mark.textContent)
  }
  for (const row of document.querySelectorAll('main .row, main [role=row]')) {
    const parts = [...row.children].filter(isSeen)
    for (const [index, part] of parts.entries()) {
      range.selectNodeContents(part)
      const own = part.getBoundingClientRect()
      const right = getComputedStyle(part).overflowX === 'visible' ? range.getBoundingClientRect().right : own.right
      const next = parts[index + 1]?.getBoundingClientRect()
      if (right > row.getBoundingClientRect().right) faults.add('runs out: ' + row.textContent.slice(0, 80))
      if (next && next.top < own.bottom && next.bottom > own.top && right > next.left + 1) faults.add('collides: ' + row.textContent.slice(0, 80))
    }
  }
  return [...faults]
})()`

// Decoys had a first column of 70 pixels, so "cred" stood above "entials"; audit entries a time that ran into their number.
test.each([390, 900, 1440])(
  'at %d pixels no word is broken, no column cut and no two of them collide',
  async (width) => {
    const page = await screens.signedIn({ at: nowhereYet, width })
    // Yesterday's times also have a day.
    await page.clock.setFixedTime(Date.now() + 86_400_000)
    const faults: string[] = []
    for (const path of [
      '/fleet',
      `/fleet/${ids[0]}`,
      `/fleet/${ids[1]}`,
      '/decoys',
      '/containments',
      '/alerts',
      '/alerts?view=channels',
      '/audit',
      '/rules',
      '/keys',
      '/incidents',
      '/trust',
      '/connect',
      '/alerts?view=routing',
      '/settings',
    ]) {
      await page.goto(path)
      await page.getByRole('main').getByRole('heading').first().waitFor()
      await settled(page)
      faults.push(...((await page.evaluate(layoutFaults)) as string[]).map((fault) => `${path} ${fault}`))
    }
    expect(faults).toEqual([])
  },
)
