import { expect, it } from 'vitest'
import { deviceName } from './device-name.ts'

const webkit = 'AppleWebKit/537.36 (KHTML, like Gecko)'

it.each([
  [`Mozilla/5.0 (X11; Linux x86_64) ${webkit} Chrome/140.0.0.0 Safari/537.36`, 'Chrome on Linux'],
  [`Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${webkit} Chrome/140.0.0.0 Safari/537.36 Edg/140.0`, 'Edge on Windows'],
  ['Mozilla/5.0 (Macintosh; Intel Mac OS X 10.15; rv:143.0) Gecko/20100101 Firefox/143.0', 'Firefox on macOS'],
  [`Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) ${webkit} Version/18.0 Safari/604.1`, 'Safari on iOS'],
  [`Mozilla/5.0 (Linux; Android 15) ${webkit} Chrome/140.0.0.0 Mobile Safari/537.36`, 'Chrome on Android'],
  ['curl/8.5.0', undefined],
  ['', undefined],
])('names the device of %j', (userAgent, name) => {
  expect(deviceName(userAgent)).toBe(name)
})
