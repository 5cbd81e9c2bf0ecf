import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { chromium, type Locator, type Page } from 'playwright-core'
import { chromiumPath } from '../test-servers/chromium.ts'

// `npm run recording` writes docs/images/demo.webp: half a minute of the demo, from an attack to the end of the
// suspension. Needs Chromium and ffmpeg.

const root = fileURLToPath(new URL('..', import.meta.url))
const target = join(root, 'docs/images/demo.webp')
const port = 28_471
const address = `http://127.0.0.1:${port}`
const size = { width: 1_120, height: 720 }
/** What a page of documents loads in a second or two. */
const maxBytes = 3_000_000

const folder = mkdtempSync(join(tmpdir(), 'wardline-recording-'))
const service = spawn(
  process.execPath,
  ['--conditions=wardline-source', join(root, 'packages/cli/src/main.js'), 'serve', '--demo'],
  {
    env: { PATH: process.env.PATH, PORT: String(port), WARDLINE_DATA_DIR: join(folder, 'data') },
    stdio: 'ignore',
  },
)

const frames: { file: string; at: number }[] = []

async function waitForService(): Promise<string> {
  for (;;) {
    const isUp = await fetch(`${address}/healthz`).then(
      ({ ok }) => ok,
      () => false,
    )
    if (isUp && existsSync(join(folder, 'data', 'admin-key')))
      return readFileSync(join(folder, 'data', 'admin-key'), 'utf8').trim()
    await sleep(100)
  }
}

/** Browsers without a screen draw no pointer. */
const pointer = `addEventListener('DOMContentLoaded', () => {
  const dot = document.createElement('div')
  Object.assign(dot.style, { position: 'fixed', width: '16px', height: '16px', borderRadius: '8px', background: '#fff', border: '2px solid #000', opacity: '0.8', pointerEvents: 'none', zIndex: '99', left: '-40px', top: '-40px' })
  dot.popover = 'manual'
  document.body.append(dot)
  addEventListener('mousemove', ({ clientX, clientY }) => {
    dot.hidePopover?.()
    dot.showPopover?.()
    Object.assign(dot.style, { left: clientX - 8 + 'px', top: clientY - 8 + 'px', margin: '0' })
  })
})`

async function press(page: Page, button: Locator): Promise<void> {
  const box = await button.boundingBox()
  if (!box) throw new Error('The button is not in view.')
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2, { steps: 15 })
  await sleep(500)
  await page.mouse.down()
  await page.mouse.up()
}

/** The demo tells its story by itself: an agent uses a decoy. A person answers. */
async function play(page: Page): Promise<void> {
  const used = page
    .getByRole('region', { name: 'Needs attention' })
    .getByRole('listitem')
    .filter({ hasText: 'used a decoy' })
    .first()
  await used.waitFor()
  await sleep(4_000)
  const suspend = used.getByRole('button', { name: /^Suspend/ })
  const agent = /demo-[\w-]+/.exec((await suspend.textContent()) ?? '')?.[0] ?? ''
  await press(page, suspend)
  const dialog = page.getByRole('dialog')
  await dialog.getByText('A command that is running already').waitFor()
  await sleep(2_500)
  await dialog.getByLabel('Reason').fill('')
  await dialog.getByLabel('Reason').pressSequentially('Decoy key used: find out who sent the ticket', { delay: 30 })
  await sleep(700)
  await page.keyboard.press('Control+Enter')
  await dialog.getByText(/^The agent confirmed after/).waitFor()
  await sleep(3_000)
  await page.keyboard.press('Escape')
  await sleep(3_500)
  await page
    .getByRole('link', { name: new RegExp(agent) })
    .first()
    .click()
  await page.getByRole('heading', { name: /^Suspended, confirmed after/ }).waitFor()
  await sleep(3_000)
  await press(page, page.getByRole('button', { name: `Resume ${agent}` }))
  const resume = dialog.getByRole('button', { name: `Resume ${agent}` })
  await resume.waitFor()
  await sleep(1_500)
  await press(page, resume)
  await dialog.getByText(/^The agent confirmed: resumed/).waitFor()
  await sleep(2_500)
}

async function record(): Promise<void> {
  const key = await waitForService()
  const browser = await chromium.launch({
    ...(chromiumPath && { executablePath: chromiumPath }),
    args: ['--no-sandbox'],
  })
  const context = await browser.newContext({ baseURL: address, viewport: size, colorScheme: 'dark' })
  await context.addInitScript(pointer)
  const page = await context.newPage()
  await page.goto('/')
  await page.getByLabel('API key').fill(key)
  await page.keyboard.press('Enter')
  await page.getByRole('region', { name: 'Live events' }).waitFor()
  const devtools = await context.newCDPSession(page)
  devtools.on('Page.screencastFrame', ({ data, metadata, sessionId }) => {
    const file = join(folder, `${frames.length}.png`)
    writeFileSync(file, Buffer.from(data, 'base64'))
    frames.push({ file, at: metadata.timestamp ?? Date.now() / 1_000 })
    void devtools.send('Page.screencastFrameAck', { sessionId })
  })
  await devtools.send('Page.startScreencast', { format: 'png', everyNthFrame: 2 })
  await play(page)
  await devtools.send('Page.stopScreencast')
  await browser.close()
}

function write(): void {
  const list = frames.map(({ file, at }, index) => {
    const seconds = (frames[index + 1]?.at ?? at + 2) - at
    return `file '${file}'\nduration ${seconds.toFixed(3)}`
  })
  const listed = join(folder, 'frames.txt')
  writeFileSync(listed, `${list.join('\n')}\n`)
  const input = ['-y', '-loglevel', 'error', '-f', 'concat', '-safe', '0', '-i', listed]
  const look = ['-vf', 'fps=8', '-c:v', 'libwebp_anim', '-quality', '60', '-loop', '0', '-an']
  execFileSync('ffmpeg', [...input, ...look, target], { stdio: 'inherit' })
  const seconds = frames.at(-1)!.at - frames[0]!.at
  const { size: bytes } = statSync(target)
  if (bytes > maxBytes) throw new Error(`The recording has ${bytes} bytes, ${maxBytes} are the most.`)
  console.log(`${target}: ${seconds.toFixed(0)} s, ${frames.length} frames, ${(bytes / 1e6).toFixed(1)} MB`)
}

try {
  await record()
  write()
} finally {
  service.kill('SIGKILL')
  rmSync(folder, { recursive: true, force: true })
}
