import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, test } from 'vitest'
import { openTestService } from '../../testing/service.ts'
import { createDownloads } from './downloads.ts'

const pythonClient = readFileSync(new URL('../../../../../clients/python/wardline.py', import.meta.url), 'utf8')

describe('GET /wardline.py', () => {
  test('returns the Python client unchanged, without a key', async () => {
    await using service = await openTestService()
    const answer = await service.call('GET', '/wardline.py', { key: null })
    expect(answer.status).toBe(200)
    expect(answer.headers).toMatchObject({
      'content-type': 'text/x-python; charset=utf-8',
      'cache-control': 'no-cache',
      'x-content-type-options': 'nosniff',
    })
    expect(answer.text).toBe(pythonClient)
  })

  test('returns 304 only for the current ETag', async () => {
    await using service = await openTestService()
    const { headers } = await service.call('GET', '/wardline.py', { key: null })
    expect(headers.etag).toMatch(/^"[\w-]{43}"$/)
    const again = (tag: unknown) =>
      service.call('GET', '/wardline.py', { key: null, headers: { 'if-none-match': String(tag) } })
    expect(await again(headers.etag)).toMatchObject({ status: 304, text: '', headers: { etag: headers.etag } })
    expect(await again('"another"')).toMatchObject({ status: 200, text: pythonClient })
  })

  // DNS rebinding: a page whose host name resolves to this machine must not learn what runs here.
  test('refuses a foreign host name, as does /sdk.tgz', async () => {
    await using service = await openTestService()
    for (const path of ['/wardline.py', '/sdk.tgz']) {
      const answer = await service.call('GET', path, { key: null, headers: { host: 'evil.example' } })
      expect(answer.status, path).toBe(421)
    }
  })
})

describe('the SDK of a clone', () => {
  /** Creates a program that appends a line to a file each time it runs. */
  function program(rest: string) {
    const folder = mkdtempSync(join(tmpdir(), 'wardline-downloads-'))
    const runs = join(folder, 'runs')
    writeFileSync(runs, '')
    const file = join(folder, 'pack.mjs')
    const source = `import { appendFileSync } from 'node:fs'\nappendFileSync(${JSON.stringify(runs)}, 'run\\n')\n${rest}\n`
    writeFileSync(file, source)
    return {
      url: pathToFileURL(file),
      runs: () => readFileSync(runs, 'utf8').split('\n').length - 1,
      [Symbol.dispose]: () => rmSync(folder, { recursive: true }),
    }
  }

  test('is packed once for simultaneous and later requests', async () => {
    await using service = await openTestService()
    using packing = program('process.stdout.write(Buffer.from([31, 139, 255, 0]))')
    const { sdk } = createDownloads(service.deps, packing.url)
    const answers = await Promise.all([sdk(), sdk(), sdk()])
    for (const { bytes } of answers) expect([...bytes]).toEqual([31, 139, 255, 0])
    expect(await sdk()).toEqual(answers[0])
    expect(packing.runs()).toBe(1)
  })

  // The request needs no key, so it must not keep the machine busy with failing attempts.
  test('is packed again a minute after a failure, whose reason is logged but not returned', async () => {
    await using service = await openTestService()
    using packing = program("process.stderr.write('no compiler here')\nprocess.exit(1)")
    const { sdk } = createDownloads(service.deps, packing.url)
    const refusal = { code: 'unavailable', retryAfterSeconds: 60 }
    const faults = await Promise.all([sdk(), sdk()].map((asked) => asked.catch((fault) => fault)))
    for (const fault of faults) {
      expect(fault).toMatchObject(refusal)
      expect(fault.message).not.toContain('compiler')
    }
    service.clock.advance(59_000)
    await expect(sdk()).rejects.toMatchObject(refusal)
    expect(packing.runs()).toBe(1)
    expect(service.logged.join()).toContain('no compiler here')
    service.clock.advance(1_001)
    await expect(sdk()).rejects.toMatchObject(refusal)
    expect(packing.runs()).toBe(2)
  })

  test('is not accepted from a program that prints endlessly', async () => {
    await using service = await openTestService()
    using packing = program("const print = () => process.stdout.write('x'.repeat(1e6), print)\nprint()")
    await expect(createDownloads(service.deps, packing.url).sdk()).rejects.toMatchObject({ code: 'unavailable' })
  })
})
