import { posix } from 'node:path'
import { keyTypes } from '@wardline/contract'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { createMonitorWith } from './agent-monitor.ts'
import { plainPath } from './decoy-paths.ts'
import { decoyTexts, maxTextLength } from './decoy-texts.ts'
import { answerPlainly, sendJson, startHostileService } from './testing/hostile-service.ts'
import { fastPace, TestFleet } from './testing/service.ts'

// Arguments that a compromised model may write so that a decoy in them is not checked.

let fleet: TestFleet
let decoyKey: string
const decoyPath = '/home/bot/.aws/credentials'
beforeAll(async () => {
  fleet = await TestFleet.open()
  decoyKey = await fleet.plantKey('openai')
  await fleet.plantPath(decoyPath)
  await fleet.plantPath('/srv/my files/pay roll.ods')
})
afterAll(() => fleet[Symbol.asyncDispose]())

/** Reproducible numbers from 0 to 1 (mulberry32). */
let seed = 1
const random = () => {
  seed = (seed + 0x6d2b79f5) | 0
  let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed)
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
}

const half = '\ud800'
const check = /\/check\//
const filler = (length: number) => 'some words of filler\n'.repeat(length / 21)
const openMonitor = () => fleet.monitor({ failMode: 'open', checkTimeoutMs: 10_000 })

const bytesOf = (text: string) => [...Buffer.from(text)]
const inside = (text: string, sign: string) => `${text.slice(0, 12)}${sign}${text.slice(12)}`

// The service refuses such texts. A refused check must not let the call through when failing open.
test.each<[string, () => unknown]>([
  ['a key with a NUL in it', () => inside(decoyKey, '\0')],
  ['a key with half a pair in it', () => inside(decoyKey, half)],
  ['a key in UTF-16', () => [...decoyKey].join('\0')],
  ['a key that a NUL ends', () => `Bearer ${decoyKey}\0abcdefgh`],
  ['a key with half a pair in it that a NUL ends', () => `${inside(decoyKey, half)}\0abcdefgh`],
  ['a key with a NUL in it that half a pair ends', () => `${inside(decoyKey, '\0')}${half}abcdefgh`],
  ['a key beside a field with a NUL', () => ({ note: 'a\0b', other: half, key: decoyKey })],
  ['a key as a name beside a NUL', () => ({ [`${decoyKey}\0`]: 1 })],
  ['bytes with a NUL in them', () => new TextEncoder().encode(inside(decoyKey, '\0'))],
  ['bytes that are no text', () => new Uint8Array([0xff, 0xd8, 0, ...new TextEncoder().encode(` ${decoyKey} `), 0xff])],
  ['bytes in UTF-16', () => new Uint16Array([...decoyKey, '\ud8ff'].map((character) => character.charCodeAt(0)))],
  ['a key as a list of its bytes', () => ({ bytes: bytesOf(decoyKey) })],
  ['a key as a serialized Buffer', () => JSON.parse(JSON.stringify(Buffer.from(`Bearer ${decoyKey}\n`)))],
  ['a key as a serialized Uint8Array', () => JSON.parse(JSON.stringify(Uint8Array.from(bytesOf(decoyKey))))],
  ['a key as a list of bytes in UTF-16', () => [...Buffer.from(decoyKey, 'utf16le')]],
  [
    'a key in a list of bytes behind binary data',
    () => [...Array.from({ length: 90_000 }, (_, n) => n & 255), ...bytesOf(decoyKey)],
  ],
  ['a key as bytes among other values', () => [-1, 'a', 256, ...bytesOf(decoyKey), null, 0.5]],
  ['a path that a NUL ends', () => [`${decoyPath}\0.txt`]],
  ['a path with a NUL in it', () => [inside(decoyPath, '\0')]],
  ['a path with half a pair in it', () => [inside(decoyPath, half)]],
  ['a path with spaces that a NUL ends', () => ['/srv/my files/pay roll.ods\0.txt']],
  ['a path among many that NULs end', () => ['/srv/a', decoyPath, '/srv/b'].join('\0')],
  ['a command with a NUL in it', () => `cat ${decoyPath}\0 | head`],
])('denies %s', async (_form, args) => {
  const { monitor, heard } = openMonitor()
  await monitor.start()
  expect(await monitor.guard({ toolName: 'http-request', args: args() })).toMatchObject({ code: 'decoy' })
  expect(heard.error).toEqual([])
})

// What agents pass as numbers is mostly no text, and must neither be denied nor slow a call down.
test.each<[string, number, () => number]>([
  ['embeddings', 3_072, () => random() * 2 - 1],
  ['pixels', 300_000, () => Math.floor(random() * 256)],
  ['dark pixels', 300_000, () => Math.floor(random() * 40)],
  ['temperatures', 100_000, () => 48 + Math.floor(random() * 75)],
  ['percentages', 100_000, () => Math.floor(random() * 101)],
  ['sizes', 100_000, () => Math.floor(random() * 5_000)],
  ['flags', 100_000, () => Math.floor(random() * 2)],
  ['one value', 100_000, () => 47],
])('allows a list of numbers at little cost: %s', async (_kind, length, value) => {
  const args = { values: Array.from({ length }, value) }
  const { keys, paths } = decoyTexts(args)
  expect(keys.length + paths.length).toBeLessThan(10)
  const { monitor, heard } = openMonitor()
  await monitor.start()
  expect(await monitor.guard({ toolName: 'plot', args })).toBeUndefined()
  expect(heard.error).toEqual([])
})

test('denies keys of every kind with NUL or a lone surrogate at any position', async () => {
  const { monitor } = openMonitor()
  await monitor.start()
  for (const keyType of keyTypes) {
    const key = await fleet.plantKey(keyType)
    const [[place, sign]] = fc.sample(fc.tuple(fc.nat(key.length), fc.constantFrom('\0', half, '\udfff')), {
      seed: 7,
      numRuns: 1,
    }) as [[number, string]]
    const text = key.slice(0, place) + sign + key.slice(place)
    expect(await monitor.guard({ toolName: 'a', args: { text } }), `${keyType} at ${place}`).toBeDefined()
  }
})

test('denies a decoy path with NUL or a lone surrogate in the path, folder, real path or tool name', async () => {
  const { monitor } = openMonitor()
  await monitor.start()
  expect(await monitor.checkPath(`${decoyPath}\0.txt`)).toBe(true)
  expect(await monitor.checkPath('credentials', { cwd: '/home/bot/.aws\0/tmp' })).toBe(true)
  expect(await monitor.checkPath('credentials', { cwd: `/home/bot/.a${half}ws` })).toBe(true)
  expect(await monitor.checkPath('credentials', { cwd: `/home/bot/${'./'.repeat(4_000)}.aws` })).toBe(true)
  expect(await monitor.checkPath('/tmp/a', { realPath: `${decoyPath}\0` })).toBe(true)
  expect(await monitor.checkPath(decoyPath, { tool: `\0${half}${'x'.repeat(300_000)}` })).toBe(true)
  expect(await monitor.guard({ toolName: `\0${half}`, args: [decoyPath] })).toMatchObject({ code: 'decoy' })
})

test('sends only texts that the service accepts, for any arguments', async () => {
  const { monitor, heard } = openMonitor()
  await monitor.start()
  const unit = fc.constantFrom('\0', half, '\udc00', 'a', '/', ' ', '.', '\u001f', '👋', "'", 'cd ')
  const text = fc.string({ unit, minLength: 1, maxLength: 400 })
  for (const args of fc.sample(fc.dictionary(text, fc.oneof(text, fc.array(text))), { seed: 3, numRuns: 40 })) {
    expect(await monitor.guard({ toolName: 'a', args, cwd: Object.keys(args)[0] })).toBeUndefined()
  }
  expect(heard.error).toEqual([])
  expect(monitor.health.uncheckedCalls).toBe(0)
})

// Otherwise filler could push a decoy beyond the checked part.
test.each<[string, () => unknown]>([
  ['a key behind a megabyte', () => `${filler(1_000_000)}${decoyKey} ${filler(10_000)}`],
  [
    'a key among 20,000 values',
    () => [...Array.from({ length: 20_000 }, (_, place) => `value number ${place}`), decoyKey],
  ],
  ['a key at depth 100', () => JSON.parse(`${'['.repeat(100)}"${decoyKey}"${']'.repeat(100)}`)],
  ['a path at the end of a script', () => `${filler(300_000)}cat ${decoyPath}`],
  [
    'a path with spaces in a script',
    () => `${filler(20_000)}don't "cat" "/srv/my files/pay roll.ods" ${filler(9_000)}`,
  ],
  ['a folder and a name far apart in a script', () => `cd /home/bot/.aws\n${filler(9_000)}; cat credentials`],
  [
    'folders one by one in a script',
    () => `cd /home/bot\n${filler(9_000)}\ncd .aws\n${filler(9_000)}\ncat credentials`,
  ],
  ['a path with thousands of detours', () => [`/home/bot/${'./'.repeat(5_000)}.aws/credentials`]],
  ['a path with escaped detours', () => [`/home/bot/${'%2e%2F'.repeat(2_000)}.aws/credentials`]],
  ['a path in a long list', () => [`${'a=/srv/x,'.repeat(600)}b=${decoyPath},c=1`]],
])('denies %s', async (_form, args) => {
  const { monitor, heard } = openMonitor()
  await monitor.start()
  expect(await monitor.guard({ toolName: 'file-write', args: args() })).toMatchObject({ code: 'decoy' })
  expect(heard.error).toEqual([])
})

test.each<[string, () => unknown]>([
  ['too long', () => 'x'.repeat(4 * 1024 * 1024 + 1)],
  ['too long together', () => Array.from({ length: 5 }, (_, place) => String(place).repeat(1024 * 1024))],
  ['too many', () => Array.from({ length: 600_000 }, () => 7)],
  ['too deep', () => JSON.parse(`${'['.repeat(300)}"text"${']'.repeat(300)}`)],
  ['too long as bytes', () => new Uint8Array(5 * 1024 * 1024)],
])('denies arguments that are %s in every fail mode, with the reason', async (_fault, args) => {
  for (const failMode of ['open', 'closed'] as const) {
    const { monitor, heard } = fleet.monitor({ failMode })
    await monitor.start()
    const asked = fleet.wire.asked(check).length
    expect(await monitor.guard({ toolName: 'file-write', args: args() })).toMatchObject({
      code: 'unchecked',
      reason: expect.stringContaining('the maximum is 4 MiB'),
    })
    expect(fleet.wire.asked(check)).toHaveLength(asked)
    expect(monitor.health.uncheckedCalls).toBe(1)
    expect(heard.error.map(({ code }) => code)).toEqual(['unchecked'])
  }
})

// An attacker who controls the arguments cannot make them unreadable, so the fail mode decides.
test('applies the fail mode to unreadable arguments', async () => {
  const args = new Proxy(
    {},
    {
      ownKeys: () => {
        throw new Error('no')
      },
    },
  )
  for (const [failMode, expected] of [
    ['open', undefined],
    ['closed', 'unchecked'],
  ] as const) {
    const { monitor } = fleet.monitor({ failMode })
    await monitor.start()
    expect((await monitor.guard({ toolName: 'file-write', args }))?.code).toBe(expected)
  }
})

/** Limit for a busy machine; code that is not linear takes half a minute. */
const hangMs = 8_000

// The check blocks the agent's thread, and a coding agent gives up on a hook that takes too long.
test.each(['/a', '"a', 'a.b ', `\0${half}/`, 'cd a/;', 'cd b; cd .. ; cat x/y;', "cd '/a/b'; "])(
  'checks 4 MiB of %j in linear time, within the maximum of requests',
  (unit) => {
    for (const characters of [maxTextLength / 2, maxTextLength]) {
      const before = process.threadCpuUsage()
      const { keys, paths } = decoyTexts(unit.repeat(characters / unit.length))
      expect(process.threadCpuUsage(before).user).toBeLessThan(hangMs * 1000)
      expect(keys.length + paths.length).toBeLessThanOrEqual(1_500)
    }
  },
)

test.each<[string, (detours: string) => unknown]>([
  ['a path', (detours) => `/${detours}`],
  ['a list', (detours) => `a=1,b=/${detours}`],
  ['a change of folder', (detours) => `cd ${detours}; cat x`],
])('normalizes %s in linear time', (_form, args) => {
  const before = process.threadCpuUsage()
  decoyTexts(args('b/'.repeat(500_000) + 'a/../'.repeat(500_000)))
  expect(process.threadCpuUsage(before).user).toBeLessThan(hangMs * 1000)
})

test('does not split a script that needs too many requests', () => {
  const cut = vi.spyOn(Buffer.prototype, 'subarray')
  try {
    expect(decoyTexts('cd a/;'.repeat(maxTextLength / 6))).toEqual({ keys: [], paths: [], gap: 'tooLarge' })
    expect(cut).not.toHaveBeenCalled()
    expect(decoyTexts('cd a/;'.repeat(2_000_000 / 6)).gap).toBeUndefined()
    expect(cut.mock.calls.length).toBeGreaterThan(500)
  } finally {
    cut.mockRestore()
  }
})

test('starts each piece of a script in the current folder of the script', () => {
  const step = fc.constantFrom('cd a', 'cd ..', 'cd /srv/x', 'cd "b c/d"', "pushd '../e'", 'cd ~', 'cd ./é/')
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 40 }), (steps) => {
      let folder = '.'
      const script = steps.map((line) => {
        const path = /^\w+ ["']?([^"']*)/.exec(line)![1]!
        folder = /^[/~]/.test(path) ? path : posix.join(folder, path)
        return `${line}\n${filler(420)}`
      })
      const { paths } = decoyTexts(`${script.join('')}cat x/y ${'#'.repeat(9_000)}`)
      const last = /^cd '(.*?)'; #/.exec(paths.at(-1)!)?.[1]
      expect(posix.join(last ?? '.', '/')).toBe(posix.join(folder, '/'))
    }),
    { seed: 11, numRuns: 300 },
  )
})

test('normalizes a path like posix.normalize', () => {
  const name = fc.constantFrom('..', '.', '', 'a', '..b', '~')
  fc.assert(
    fc.property(fc.array(name), (names) => {
      const path = names.join('/')
      expect(plainPath(path).replace(/^$/, '.')).toBe(posix.normalize(path).replace(/^\.\/$/, '.'))
    }),
    { seed: 12, numRuns: 2_000 },
  )
})

describe('an unusable answer to a check', () => {
  const asked = { toolName: 'file-read', args: ['/tmp/a', 'a text that may hold a key'] }
  const guardAgainst = async (failMode: 'open' | 'closed', answer: Parameters<typeof startHostileService>[0]) => {
    const url = await startHostileService(answer)
    const monitor = createMonitorWith(
      { url, key: 'key', instanceId: 'agent-1', failMode, checkTimeoutMs: 2_000 },
      fastPace,
    )
    await monitor.refresh()
    return monitor.guard(asked)
  }
  const onChecks =
    (
      status: number,
      headers: Record<string, string> = {},
      route = '/check/',
    ): Parameters<typeof startHostileService>[0] =>
    (request, response, body) => {
      // A harmless text is answered: only the arguments make the difference. A failing service fails for all texts.
      const isProbe = body.includes('"wardline"') && status < 500
      if (request.url?.includes(route) && !isProbe) sendJson(response, status, { error: 'no' }, headers)
      else answerPlainly(request, response, body)
    }

  test.each([
    [400, {}, /refuses the arguments/],
    [413, {}, /refuses the arguments/],
    [431, { 'x-error-code': 'invalid' }, /refuses the arguments/],
    [429, { 'retry-after': '60', 'x-error-code': 'quota_exceeded' }, /too many decoy checks/],
    // The key has too many costly checks in progress.
    [503, { 'retry-after': '60', 'x-error-code': 'overloaded' }, /too many decoy checks/],
    // A firewall between agent and service may block known paths of secrets.
    [403, {}, /refuses the arguments/],
    [200, {}, /refuses the arguments/],
  ])('denies the call in every fail mode on %i %o', async (status, headers, reason) => {
    for (const failMode of ['open', 'closed'] as const) {
      const denial = await guardAgainst(failMode, onChecks(status, headers))
      expect(denial).toMatchObject({ code: 'unchecked', reason: expect.stringMatching(reason) })
      expect(await guardAgainst(failMode, onChecks(status, headers, '/check/path'))).toEqual(denial)
    }
  })

  test.each([
    [401, { 'x-error-code': 'unauthorized' }],
    // An invalid key, from an address that has sent many of them.
    [429, { 'retry-after': '60', 'x-error-code': 'too_many_failures' }],
    [403, { 'x-error-code': 'forbidden' }],
    [404, { 'x-error-code': 'not_found' }],
    [500, { 'x-error-code': 'internal' }],
    [502, {}],
    [503, { 'retry-after': '60', 'x-error-code': 'unavailable' }],
  ])('applies the fail mode on %i %o', async (status, headers) => {
    expect(await guardAgainst('open', onChecks(status, headers))).toBeUndefined()
    for (const route of ['/check/', '/check/key', '/check/path']) {
      expect(await guardAgainst('closed', onChecks(status, headers, route))).toMatchObject({ code: 'unchecked' })
    }
  })

  test.each([429, 503])('is retried after %i within the time limit', async (status) => {
    let refused = 0
    const denial = await guardAgainst('closed', (request, response, body) => {
      if (request.url?.includes('/check/path') && refused++ < 2) {
        return sendJson(response, status, { error: 'no' }, { 'retry-after': '0' })
      }
      answerPlainly(request, response, body)
    })
    expect(denial).toBeUndefined()
    expect(refused).toBe(3)
  })

  // Otherwise padding would let a call avoid the check while the service is slow, or made slow.
  test.each<[string, number, string]>([
    ['a few long parts', 100_000, 'some words of filler'],
    ['many long parts', 2_000_000, 'some words of filler'],
    ['one short text', 21, 'some words of filler'],
  ])('by silence about %s while a harmless text is answered denies the call', async (_size, length, silentFor) => {
    for (const failMode of ['open', 'closed'] as const) {
      const denial = await guardAgainstSilence(failMode, filler(length), (body) => body.includes(silentFor))
      expect(denial).toMatchObject({ code: 'unchecked', reason: expect.stringContaining('did not check all') })
    }
  })

  test('about a part of the arguments denies the call, although the rest was answered', async () => {
    let answered = 0
    const isSilent = () => answered++ >= 2
    expect(await guardAgainstSilence('open', filler(100_000), isSilent)).toMatchObject({ code: 'unchecked' })
  })

  test('about any text leaves the decision to the fail mode', async () => {
    expect(await guardAgainstSilence('open', filler(2_000_000), () => true)).toBeUndefined()
    expect(await guardAgainstSilence('closed', filler(100_000), () => true)).toMatchObject({ code: 'unchecked' })
  })

  test('that compared only a part denies the call in every fail mode', async () => {
    const partial = { 'x-wardline-check': 'partial' }
    for (const failMode of ['open', 'closed'] as const) {
      const denial = await guardAgainst(failMode, (request, response, body) =>
        request.url?.includes('/check/key')
          ? sendJson(response, 200, { matched: false }, partial)
          : answerPlainly(request, response, body),
      )
      expect(denial).toMatchObject({ code: 'unchecked', reason: expect.stringContaining('exceeds the work limit') })
    }
  })

  async function guardAgainstSilence(failMode: 'open' | 'closed', args: string, isSilent: (body: string) => boolean) {
    const url = await startHostileService((request, response, body) => {
      if (!request.url?.includes('/check/') || !isSilent(body)) answerPlainly(request, response, body)
    })
    const options = { url, key: 'key', instanceId: 'agent-1', failMode, checkTimeoutMs: 200 }
    const monitor = createMonitorWith(options, fastPace)
    await monitor.refresh()
    return monitor.guard({ toolName: 'file-write', args })
  }
})

// Text that is costly to search, in front of the decoy, until the time of the check is over.
describe('a decoy behind costly text', () => {
  const encoded = (text: string, times: number): string =>
    times === 0 ? text : encoded(Buffer.from(text).toString('base64'), times - 1)
  const costly: Record<string, string> = {
    'base64 of base64 of base64': encoded('100% of \\u0041 &amp; =41 0x41, 115, '.repeat(400), 3),
    'packed data': 'H4sI'.repeat(7_500),
  }
  test.each(Object.keys(costly).flatMap((kind) => [8, 14].map((parts) => [parts, kind] as const)))(
    'is denied with the default fail mode and time: %i parts of %s',
    async (parts, kind) => {
      const key = await fleet.createKey(['agent-1'])
      const { monitor } = fleet.monitor({ key, checkTimeoutMs: 150 })
      await monitor.start()
      const args = [...Array.from({ length: parts }, (_, part) => `${part} ${costly[kind]}`), `Bearer ${decoyKey}`]
      expect(await monitor.guard({ toolName: 'http-request', args })).toBeDefined()
    },
  )
})
