import type { ChildProcess } from 'node:child_process'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { AgentHome, ended } from '../testing/agent-command.ts'
import { answerPlainly, startHostileService } from '../testing/hostile-service.ts'
import { agentId, eventually, TestFleet } from '../testing/service.ts'

// Tests the proxy byte by byte, with small servers that misbehave.
const slow = { timeout: 60_000 }

let fleet: TestFleet
let decoyKey: string
beforeAll(async () => {
  fleet = await TestFleet.open()
  decoyKey = await fleet.plantKey('openai')
}, 60_000)
afterAll(() => fleet[Symbol.asyncDispose]())

const newHome = (env: Record<string, string> = {}) =>
  new AgentHome({ WARDLINE_URL: fleet.wire.url, WARDLINE_KEY: fleet.agentKey, WARDLINE_INSTANCE_ID: agentId, ...env })

const proxy = (...server: string[]) => ['mcp-proxy', '--', process.execPath, ...server]
/** Of a server that echoes every byte. */
const echoProxy = ['mcp-proxy', '--', 'cat']
const closed = { WARDLINE_FAIL_MODE: 'closed' }

const call = (id: unknown, said: string, method = 'tools/call') =>
  JSON.stringify({ jsonrpc: '2.0', id, method, params: { name: 'echo', arguments: { said } } })
const linesOf = (text: string) => text.split('\n').filter((line) => line !== '')
const decoyCall = (id: unknown) => call(id, decoyKey)
const denial = (id: unknown) => ({
  jsonrpc: '2.0',
  id,
  result: {
    resultType: 'complete',
    isError: true,
    content: [{ type: 'text', text: 'The security monitor of this agent does not allow this call. Do not retry it.' }],
  },
})

describe('the proxy', slow, () => {
  test('relays allowed messages byte for byte, in order', async () => {
    const odd = [
      '{ "jsonrpc":"2.0",  "id":1 , "method":"ping" }',
      '{"jsonrpc":"2.0","id":12345678901234567890,"method":"tools/list","params":{"a":1.0,"b":1e3}}',
      '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"s":"\\u00e9 é 👋"}}',
      call(2, 'fine'),
      '',
      '   ',
      `[${call(3, 'fine')},  ${call('x', 'also fine')}]`,
      '{"jsonrpc":"2.0","id":4,"result":{}}\r',
    ]
    const input = `${odd.join('\n')}\n${call(5, 'no end')}`
    const { code, stdout } = await newHome().run(echoProxy, input)
    expect(stdout).toBe(input)
    expect(code).toBe(0)
  })

  test('denies calls with a decoy, and relays the messages around them', async () => {
    const input = [
      call(1, 'a'),
      decoyCall(2),
      '{"jsonrpc":"2.0","id":3,"method":"ping"}',
      decoyCall('four'),
      call(5, 'b'),
    ]
    const { stdout } = await newHome().run(echoProxy, `${input.join('\n')}\n`)
    const lines = linesOf(stdout)
    expect(lines.filter((line) => line.includes('result')).map((line) => JSON.parse(line))).toEqual([
      denial(2),
      denial('four'),
    ])
    expect(lines.filter((line) => !line.includes('result'))).toEqual([input[0], input[2], input[4]])
    expect(stdout).not.toContain(decoyKey)
  })

  // Text that is costly to search, in front of the decoy, until the time of the check is over.
  test('denies a call with costly arguments, whether the service finds the decoy behind them or does not answer', async () => {
    const padding = Array.from({ length: 14 }, (_, part) => `${part} ${'H4sI'.repeat(7_900)}\n`).join('')
    const key = await fleet.createKey([agentId])
    const { stdout } = await newHome({ WARDLINE_KEY: key }).run(echoProxy, `${call(1, padding + decoyKey)}\n`)
    expect(linesOf(stdout).map((line) => JSON.parse(line))).toMatchObject([{ id: 1, result: { isError: true } }])

    const url = await startHostileService((request, response, body) => {
      if (!request.url?.includes('/check/key') || !body.includes('filler')) answerPlainly(request, response, body)
    })
    const said = 'some words of filler\n'.repeat(10_000)
    const unanswered = await newHome({ WARDLINE_URL: url }).run(echoProxy, `${call(2, said)}\n`)
    expect(linesOf(unanswered.stdout).map((line) => JSON.parse(line))).toMatchObject([
      { id: 2, result: { isError: true, content: [{ text: expect.stringContaining('did not check all') }] } },
    ])
  })

  // The service refuses these characters, and a refused check must not let the call through.
  test('denies a call with a decoy that is split by NUL or a lone surrogate', async () => {
    const cut = (id: number, sign: string) => call(id, `${decoyKey.slice(0, 9)}${sign}${decoyKey.slice(9)}`)
    const { stdout } = await newHome().run(echoProxy, `${cut(1, '\0')}\n${cut(2, '\ud800')}\n`)
    expect(linesOf(stdout).map((line) => JSON.parse(line))).toEqual([denial(1), denial(2)])
  })

  // The same message in other bytes must be detected too.
  test.each([
    ['an escaped method', () => decoyCall(1).replace('tools/call', 'tools\\/call')],
    ['a method in code points', () => decoyCall(1).replace('tools', '\\u0074ools')],
    [
      'an escaped key',
      () =>
        decoyCall(1).replace(
          decoyKey,
          [...decoyKey].map((c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`).join(''),
        ),
    ],
    ['white space', () => ` \t${decoyCall(1)} \r`],
    [
      'another order',
      () => `{"params":${JSON.stringify({ arguments: { a: decoyKey } })},"method":"tools/call","id":1}`,
    ],
    ['a batch of one', () => `[${decoyCall(1)}]`],
  ])('detects a call in the form of %s', async (_case, line) => {
    const { stdout } = await newHome().run(echoProxy, `${line()}\n`)
    expect(linesOf(stdout).map((answer) => JSON.parse(answer))).toEqual([denial(1)])
  })

  test('removes a denied call from a batch', async () => {
    const batch = `[${call(1, 'a')},${decoyCall(2)},{"jsonrpc":"2.0","method":"notifications/initialized"}]`
    const { stdout } = await newHome().run(echoProxy, `${batch}\n`)
    const [first, second] = linesOf(stdout)
      .map((line) => JSON.parse(line))
      .sort((a) => (Array.isArray(a) ? -1 : 1))
    expect(first).toEqual([JSON.parse(call(1, 'a')), { jsonrpc: '2.0', method: 'notifications/initialized' }])
    expect(second).toEqual(denial(2))
  })

  test('sends no answer to a denied notification', async () => {
    const { stdout } = await newHome().run(echoProxy, `${call(undefined, decoyKey)}\n${call(2, 'a')}\n`)
    expect(linesOf(stdout)).toEqual([call(2, 'a')])
  })

  // Other parsers than the proxy's accept such lines, and would run another call than the checked one.
  test.each([
    ['half a message', -32700, () => '{"jsonrpc":'],
    ['a number', -32600, () => '42'],
    ['NaN', -32700, () => decoyCall(1).replace('"said"', '"n":NaN,"said"')],
    ['a byte order mark', -32700, () => `\ufeff${decoyCall(1)}`],
    ['two messages in a line', -32700, () => `${call(1, 'a')}\r${decoyCall(1)}`],
    ['a call between carriage returns', -32700, () => `{"method":"ping","params":\r${decoyCall(1)}\r}`],
    ['a batch in a batch', -32600, () => `[[${decoyCall(1)}]]`],
    [
      'a byte that is not UTF-8',
      -32700,
      () => Buffer.from(decoyCall(1).replace(decoyKey, `${decoyKey.slice(0, 9)}\xff${decoyKey.slice(9)}`), 'latin1'),
    ],
    ['two equal names', -32600, () => decoyCall(1).replace('"said"', `"said":${JSON.stringify(decoyKey)},"said"`)],
  ])('refuses a line with %s in every fail mode, with a warning', async (_case, code, line) => {
    const input = Buffer.concat([Buffer.from(line()), Buffer.from(`\n${call(2, 'a')}\n`)])
    for (const env of [{}, closed]) {
      const { stdout, stderr } = await newHome(env).run(echoProxy, input)
      expect(linesOf(stdout).map((text) => JSON.parse(text))).toEqual([
        { jsonrpc: '2.0', id: null, error: { code, message: expect.stringContaining('does not forward it') } },
        JSON.parse(call(2, 'a')),
      ])
      expect(stderr).toContain('A message of the client was refused.')
    }
  })

  test('survives a batch with a denied call and one nested deeper than the stack allows', async () => {
    const deep = `{"jsonrpc":"2.0","id":9,"method":"a","params":{"a":${'['.repeat(200_000)}${']'.repeat(200_000)}}}`
    const { stdout } = await newHome().run(echoProxy, `[${decoyCall(1)},${deep}]\n${call(2, 'a')}\n`)
    expect(linesOf(stdout).map((text) => JSON.parse(text))).toEqual([denial(1), JSON.parse(call(2, 'a'))])
  })

  test('denies calls from a working folder that was removed', async () => {
    const home = newHome()
    const folder = home.path('removed')
    const program = `import { mkdirSync, rmdirSync } from 'node:fs'
      mkdirSync('${folder}')
      process.chdir('${folder}')
      rmdirSync('${folder}')`
    const env = { NODE_OPTIONS: `--import ${home.write('program.mjs', program)}` }
    const server = ['mcp-proxy', '--', '/bin/sh', '-c', 'cat']
    const { stdout } = await home.run(server, `${decoyCall(2)}\n${call(3, 'a')}\n`, env)
    expect(linesOf(stdout).map((text) => JSON.parse(text))).toEqual([denial(2), JSON.parse(call(3, 'a'))])
  })

  test('refuses messages over 16 MiB in every fail mode', async () => {
    const long = call(1, 'x'.repeat(17 * 1024 * 1024))
    const [open, shut] = await Promise.all([
      newHome().run(echoProxy, `${long}\n${call(2, 'a')}\n`),
      newHome(closed).run(echoProxy, `${long}\n${call(2, 'a')}\n`),
    ])
    for (const { stdout } of [open!, shut!]) {
      expect(linesOf(stdout).map((text) => JSON.parse(text))).toEqual([
        { jsonrpc: '2.0', id: null, error: { code: -32600, message: expect.stringContaining('too long') } },
        JSON.parse(call(2, 'a')),
      ])
    }
  })

  test('applies backpressure to the client while the server does not read, and loses nothing', async () => {
    const lazy = `const held = setInterval(() => {}, 1000)
      process.once('SIGUSR2', () => {
        clearInterval(held)
        process.stdin.pipe(process.stdout)
      })
      console.error('up ' + process.pid)`
    const child = newHome().start(proxy('-e', lazy))
    const end = ended(child)
    let said = ''
    child.stderr!.on('data', (text) => {
      said += text
    })
    const server = await eventually(() => Number(/up (\d+)/.exec(said)![1]))
    const lines = Array.from({ length: 200 }, (_, id) => call(id, 'x'.repeat(10_000)))
    const written = lines.map((line) => child.stdin!.write(`${line}\n`))
    expect(written).toContain(false)
    process.kill(server, 'SIGUSR2')
    child.stdin!.end()
    const { stdout } = await end
    expect(stdout === `${lines.join('\n')}\n`).toBe(true)
  })

  test('denies every call without contact when failing closed', async () => {
    const home = newHome({ ...closed, WARDLINE_URL: 'http://127.0.0.1:1' })
    const { stdout } = await home.run(echoProxy, `${call(1, 'a')}\n{"jsonrpc":"2.0","id":2,"method":"ping"}\n`)
    expect(linesOf(stdout).map((line) => JSON.parse(line))).toEqual([
      expect.objectContaining({ id: 1, result: expect.objectContaining({ isError: true }) }),
      { jsonrpc: '2.0', id: 2, method: 'ping' },
    ])
  })

  test('keeps a suspension across a restart while the service is unreachable', async () => {
    const home = newHome()
    await fleet.kill('exfiltration').catch(async () => {
      // The instance must be registered before it can be killed.
      await home.run(echoProxy, `${call(1, 'a')}\n`)
      await fleet.kill('exfiltration')
    })
    try {
      expect((await home.run(echoProxy, `${call(1, 'a')}\n`)).stdout).toContain('suspended (exfiltration)')
      fleet.wire.mode = 'refuse'
      expect((await home.run(echoProxy, `${call(1, 'a')}\n`)).stdout).toContain('suspended (exfiltration)')
    } finally {
      fleet.wire.mode = 'pass'
      await fleet.resume()
    }
  })
})

// Otherwise a server could crash the proxy with one answer, and the report of its last calls would be lost.
test('the proxy survives an answer whose id is nested deeper than the stack allows', slow, async () => {
  const deep = `'['.repeat(200_000) + ']'.repeat(200_000)`
  const server = `process.stdin.once('data', () => {
    console.log('{"jsonrpc":"2.0","id":' + ${deep} + ',"result":{}}')
    console.log('{"jsonrpc":"2.0","id":1,"result":{"content":[]}}')
  })`
  const { code, stdout, stderr } = await newHome().run(proxy('-e', server), call(1, 'fine'))
  expect(linesOf(stdout).at(-1)).toBe('{"jsonrpc":"2.0","id":1,"result":{"content":[]}}')
  expect(stderr).not.toContain('RangeError')
  expect(code).toBe(0)
})

describe('the exit of the server', slow, () => {
  const startedWith = async (child: ChildProcess) => {
    let shown = ''
    child.stdout!.on('data', (text) => {
      shown += text
    })
    await eventually(() => expect(shown).toContain('up'))
  }

  test.each([0, 1, 42])('sets the exit code of the proxy (%i)', async (code) => {
    expect(await newHome().run(proxy('-e', `process.exit(${code})`))).toMatchObject({ code })
  })

  test('by a signal sets the exit code that a shell would report', async () => {
    expect(await newHome().run(proxy('-e', `process.kill(process.pid, 'SIGKILL')`))).toMatchObject({ code: 137 })
  })

  test.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)('follows when the proxy receives %s', async (signal) => {
    const child = newHome().start(
      proxy('-e', `process.on('${signal}', () => process.exit(9)); setInterval(() => {}, 1000); console.log('up')`),
    )
    await startedWith(child)
    child.kill(signal)
    expect(await ended(child)).toMatchObject({ code: 9 })
  })

  test('follows when the client has gone', async () => {
    const child = newHome().start(proxy('-e', `setInterval(() => console.log('up'), 20)`))
    await startedWith(child)
    child.stdout!.destroy()
    expect(await ended(child)).toMatchObject({ code: 143 })
  })

  test('ends the proxy even if a child process of the server holds its output open', async () => {
    const holder = `require('child_process').spawn(process.execPath, ['-e', 'setTimeout(() => {}, 20000)'], { stdio: ['ignore', 'inherit', 'ignore'], detached: true }).unref(); process.exit(5)`
    const child = newHome().start(proxy('-e', holder))
    const code = await new Promise((resolve) => child.once('exit', resolve))
    expect(code).toBe(5)
    child.stdout!.destroy()
  })

  test('has another exit code than a server that cannot be started', async () => {
    expect(await newHome().run(['mcp-proxy', '--', 'no-such-program'])).toMatchObject({
      code: 127,
      stderr: expect.stringContaining('cannot be started (ENOENT)'),
    })
    expect(await newHome().run(['mcp-proxy', '--', '/'])).toMatchObject({ code: 126 })
  })
})

describe('invalid settings', slow, () => {
  test('prevent the server from starting when failing closed', async () => {
    const answer = await newHome({ WARDLINE_KEY: '' }).run(
      ['mcp-proxy', '--fail-closed', '--', 'cat'],
      `${call(1, 'a')}\n`,
    )
    expect(answer).toMatchObject({ code: 78, stdout: '', stderr: expect.stringContaining('a key') })
  })

  test('cause a warning when failing open', async () => {
    const answer = await newHome({ WARDLINE_KEY: '' }).run(echoProxy, `${call(1, 'a')}\n`)
    expect(answer).toMatchObject({
      code: 0,
      stdout: `${call(1, 'a')}\n`,
      stderr: expect.stringContaining('No call is checked'),
    })
  })
})
