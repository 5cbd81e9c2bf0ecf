import { describe, expect, test } from 'vitest'
import { postEvent, unique } from '../fleet.ts'
import { until } from '../service.ts'
import { useScreens } from './browser.ts'

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
    const second = await page.context().newPage()
    const third = await page.context().newPage()
    for (const other of [second, third]) {
      await other.goto('/events')
      await other.getByText('Live', { exact: true }).first().waitFor()
    }
    const text = unique('everywhere')
    await postEvent(screens.service, { description: text })
    for (const tab of [page, second, third]) await tab.getByText(text).waitFor()
    expect(await openStreams()).toBe(1)
    await page.close()
    const later = unique('later')
    await postEvent(screens.service, { description: later })
    await second.getByText(later).waitFor()
  })

  test('loses and repeats nothing while the service restarts under an open page', async () => {
    const page = await screens.signedIn()
    await page.goto('/events')
    const mark = unique('kept')
    const post = (index: number) => postEvent(screens.service, { description: `${mark} ${index}` })
    await post(0)
    await page.getByText(`${mark} 0`).waitFor()
    await screens.service.terminate()
    await page.getByText('Reconnecting…').waitFor()
    await screens.service.start()
    // Stored before the page is back: only a stream that resumes shows them.
    for (let index = 1; index < 6; index++) await post(index)
    await page.getByText('Live', { exact: true }).first().waitFor()
    for (let index = 6; index < 9; index++) await post(index)
    await page.getByText(`${mark} 8`).waitFor()
    for (let index = 0; index < 9; index++)
      expect(await page.getByText(`${mark} ${index}`).count(), String(index)).toBe(1)
  })

  test('asks for the key again once the session is over', async () => {
    const page = await screens.signedIn()
    await page.context().clearCookies()
    await page.getByRole('heading', { name: 'Sign in with a key' }).waitFor()
  })

  test('says how old its data is instead of claiming anything when the service is away', async () => {
    const page = await screens.signedIn()
    await page.route('**/api/**', (route) => route.abort())
    await page.getByRole('heading', { name: /^No answer from the service for \d+ s/ }).waitFor()
    await page.unroute('**/api/**')
    await page.getByRole('heading', { name: /^No answer/ }).waitFor({ state: 'detached' })
  })

  // A tab that is open for weeks: only the newest rows stay in it.
  test('keeps a bounded number of rows in a page', async () => {
    const page = await screens.signedIn()
    await page.goto('/events')
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
    await page.getByText('the newest 2,000 are kept here').waitFor()
    const lines = await until(
      'rows in view',
      () => page.locator('.event-line').count(),
      (count) => count > 0,
    )
    expect(lines).toBeLessThan(100)
  })
})
