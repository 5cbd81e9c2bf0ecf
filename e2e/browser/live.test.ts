import { describe, expect, test } from 'vitest'
import { effort } from '../../test-servers/effort.ts'
import { anEvent, postEvent, unique } from '../fleet.ts'
import { until } from '../service.ts'
import { nowhereYet, signIn, useScreens } from './browser.ts'

const screens = useScreens()

/** Streams that the service serves. */
async function openStreams(): Promise<number> {
  const { text } = await screens.service.call('GET', '/metrics')
  return Number(/^wardline_stream_clients\{kind="events"\} (\d+)/m.exec(text)?.[1] ?? 0)
}

describe('the live stream', () => {
  test('shows an event of a real agent as it is reported', async () => {
    const agent = await screens.agent(unique('live'))
    const page = await screens.signedIn()
    const text = unique('seen')
    agent.say(text)
    await page.getByText(text).waitFor()
    await page.keyboard.press('p')
    await page.getByText('Paused · 0 new').waitFor()
    agent.say(unique('unseen'))
    await page.getByText('Paused · 1 new').waitFor()
    await agent.end()
  })

  test('is one for all tabs of a browser', async () => {
    await until('the end of the streams of earlier tests', openStreams, (count) => count === 0, 30_000)
    const page = await screens.signedIn()
    const tabs = [page]
    while (tabs.length < effort(4, 10)) {
      const tab = await page.context().newPage()
      await tab.goto(tabs.length % 2 === 0 ? '/' : '/events')
      tabs.push(tab)
    }
    for (const tab of tabs) await tab.getByText('Live', { exact: true }).first().waitFor()
    const text = unique('everywhere')
    await postEvent(screens.service, { description: text })
    for (const tab of tabs) await tab.getByText(text).first().waitFor()
    expect(await openStreams()).toBe(1)
    await page.close()
    const later = unique('later')
    await postEvent(screens.service, { description: later })
    await tabs[1]!.getByText(later).waitFor()
    expect(await openStreams()).toBe(1)
  })

  test('is one for each tab where the browser has no shared workers, and says so', async () => {
    await until('the end of the streams of earlier tests', openStreams, (count) => count === 0, 30_000)
    const context = await screens.open()
    await context.addInitScript('delete globalThis.SharedWorker')
    const page = await context.newPage()
    await signIn(page, screens.service.key)
    const second = await context.newPage()
    await second.goto('/events')
    for (const tab of [page, second]) await tab.getByTitle('Each tab has its own stream.').getByText('Live').waitFor()
    expect(await openStreams()).toBe(2)
    const text = unique('alone')
    await postEvent(screens.service, { description: text })
    for (const tab of [page, second]) await tab.getByText(text).waitFor()
  })

  test('loses and repeats nothing while the service restarts under an open page', async () => {
    const page = await screens.signedIn({ at: '/events' })
    const mark = unique('kept')
    const post = (index: number) => postEvent(screens.service, { description: `${mark} ${index}` })
    await post(0)
    await page.getByText(`${mark} 0`).waitFor()
    await screens.service.terminate()
    await page.getByText('Reconnecting…').waitFor()
    await screens.service.start()
    // Stored before the page reconnects: only a stream that resumes shows them.
    for (let index = 1; index < 6; index++) await post(index)
    await page.getByText('Live', { exact: true }).first().waitFor()
    for (let index = 6; index < 9; index++) await post(index)
    await page.getByText(`${mark} 8`).waitFor()
    for (let index = 0; index < 9; index++)
      expect(await page.getByText(`${mark} ${index}`).count(), String(index)).toBe(1)
  })

  // Acknowledged events are on disk: a page that misses one hides it from its reader.
  test('brings every acknowledged event after the service was killed and started again', async () => {
    const page = await screens.signedIn({ at: '/events' })
    const mark = unique('killed')
    const acknowledged: string[] = []
    let attempts = 0
    // A new text each time, so that an event stored without a response does not look like a duplicate.
    const send = async () => {
      const description = `${mark} ${attempts++}`
      const body = anEvent({ description })
      const status = await screens.service.call('POST', '/api/events', { body }).then(
        (answer) => answer.status,
        () => 0,
      )
      if (status === 201) acknowledged.push(description)
      return status
    }
    const sendUntil = (count: number) => until(`${count} events`, send, () => acknowledged.length >= count)
    await sendUntil(50)
    await page.getByText(`${mark} 49`, { exact: true }).waitFor()
    const sending = sendUntil(200)
    await until(
      'a stream of events',
      () => acknowledged.length,
      (count) => count >= 100,
    )
    await screens.service.kill9()
    await page.getByText('Reconnecting…').waitFor()
    await page.getByText(/^No answer from the service\. Data is \d+ s old\.$/).waitFor()
    await page.getByText('Not live', { exact: true }).waitFor()
    expect(await page.getByText('Live', { exact: true }).count()).toBe(0)
    await screens.service.start()
    await sending
    await page.getByText(acknowledged.at(-1)!, { exact: true }).waitFor()
    await page.getByText('Live', { exact: true }).first().waitFor()
    const seen = await page.evaluate(`(async () => {
      const list = document.querySelector('[aria-label="List of events"]')
      const seen = new Map()
      for (let top = 0; top <= list.scrollHeight; top += 200) {
        list.scrollTop = top
        await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))
        for (const line of list.querySelectorAll('[role=listitem]'))
          seen.set(line.style.transform, line.querySelector('.event-line > :last-child').textContent)
      }
      return [...seen.values()]
    })()`)
    const shown = (seen as string[]).filter((text) => text.startsWith(mark))
    expect(acknowledged.filter((text) => !shown.includes(text))).toEqual([])
    expect(shown).toEqual([...new Set(shown)])
  })

  test('asks for the key again once the session is over', async () => {
    const page = await screens.signedIn()
    await page.context().clearCookies()
    await page.getByRole('heading', { name: 'Sign in with a key' }).waitFor()
  })

  test('says how old its data is instead of claiming anything when the service is away', async () => {
    const page = await screens.signedIn({ at: nowhereYet })
    await page.clock.install()
    await page.goto('/')
    await page.getByText('Live', { exact: true }).waitFor()
    await page.route('**/api/**', (route) => route.abort())
    await page.clock.fastForward(11_000)
    await page.getByRole('heading', { name: /^No answer from the service for \d+ s/ }).waitFor()
    await page.unroute('**/api/**')
    await page.getByRole('heading', { name: /^No answer/ }).waitFor({ state: 'detached' })
  })

  // A tab may stay open for weeks, so it keeps only the newest rows.
  test('keeps a bounded number of rows in a page', async () => {
    const page = await screens.signedIn({ at: '/events' })
    await page.getByText('Live', { exact: true }).first().waitFor()
    const mark = unique('flood')
    await postEvent(screens.service, { description: `${mark} first` })
    await page.getByText(`${mark} first`).waitFor()
    for (let batch = 0; batch < 5; batch++) {
      const events = Array.from({ length: 500 }, (_, index) => ({
        severity: 'info',
        source: 'e2e',
        event_type: 'policy_note',
        description: `${mark} ${batch * 500 + index}`,
      }))
      const { body } = await screens.service.call<{ ok: boolean }>('POST', '/api/events/batch', { body: events })
      expect(body.ok).toBe(true)
    }
    await page.getByText(`${mark} 2499`).waitFor()
    await page.getByText('newest 2,000 shown').waitFor()
    const lines = await until(
      'rows in view',
      () => page.getByLabel('List of events').getByRole('listitem').count(),
      (count) => count > 0,
    )
    expect(lines).toBeLessThan(100)
  })

  // If a list lost rows silently, an attacker could hide behind a flood.
  test('lists a sample of a flood, says so, and lists all on request', async () => {
    const page = await screens.signedIn({ at: '/events' })
    await page.getByText('Live', { exact: true }).first().waitFor()
    const mark = unique('sampled')
    const total = 6_000
    for (let sent = 0; sent < total; sent += 1_000) {
      const events = Array.from({ length: 1_000 }, (_, index) =>
        anEvent({
          description: `${mark} ${sent + index}`,
          severity: index === 500 ? 'critical' : 'info',
        }),
      )
      expect((await screens.service.call('POST', '/api/events/batch', { body: events })).status).toBe(200)
    }
    const said = page.getByText(/sampled: [\d,]+ of 6,000 not shown/)
    await said.waitFor()
    await page.getByRole('button', { name: 'Show all' }).click()
    await page.getByText('Paused · 0 new').waitFor()
    await said.waitFor({ state: 'detached' })
    for (let row = total - 1; row > total - 10; row--) await page.getByText(`${mark} ${row}`, { exact: true }).waitFor()
    await page.goto('/events?severity=critical')
    await page.getByText(`${mark} 5500`).waitFor()
    expect(await page.getByText(mark).count()).toBe(6)
  })
})
