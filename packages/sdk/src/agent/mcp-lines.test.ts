import { once } from 'node:events'
import { Readable } from 'node:stream'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { AgentHome, ended } from '../testing/agent-command.ts'
import { agentId, eventually, TestFleet } from '../testing/service.ts'

// The output of the server reaches the client as it is, with the proxy's own answers between its lines.
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
  test('relays what the server writes as it is', async () => {
    const text = '\ufeff{"n":NaN}\r{} {}\n\n[[]]\n\xff'
    const server = `process.stdout.write(Buffer.from('${Buffer.from(text, 'latin1').toString('hex')}', 'hex'))`
    const child = newHome().start(proxy('-e', server))
    const parts: Buffer[] = []
    child.stdout!.on('data', (part) => parts.push(part))
    await new Promise((resolve) => child.once('close', resolve))
    expect(Buffer.concat(parts).toString('latin1')).toBe(Buffer.from(text, 'latin1').toString('latin1'))
  })

  // Prints half a line on the first message, and the rest on the third.
  const startHalves = (half: string, rest: string) => {
    const server = `let count = 0
      require('readline').createInterface({ input: process.stdin })
        .on('line', () => process.stdout.write([${half}, '', ${rest}][count++]))`
    const child = newHome().start(proxy('-e', server))
    const out = { child, shown: '' }
    child.stdout!.on('data', (text) => {
      out.shown += text
    })
    return out
  }
  const isDenied = (out: { shown: string }) => out.shown.includes('does not allow this call')

  test('inserts its answers between lines, also while the server leaves a line open', async () => {
    const out = startHalves(`'{"half":'`, `'1}\\n'`)
    out.child.stdin!.write(`${call(1, 'a')}\n${decoyCall(2)}\n`)
    await eventually(() => expect(isDenied(out)).toBe(true))
    out.child.stdin!.end(`${call(3, 'b')}\n${call(4, 'c')}\n`)
    await ended(out.child)
    expect(linesOf(out.shown).map((line) => JSON.parse(line))).toEqual([denial(2), { half: 1 }])
  })

  test('cuts a line that is too long to buffer when the server does not end it', async () => {
    const long = 17 * 1024 * 1024
    const out = startHalves(`'x'.repeat(${long})`, `'rest\\n{"next":1}\\n'`)
    out.child.stdin!.write(`${call(1, 'a')}\n`)
    await eventually(() => expect(out.shown.length).toBeGreaterThan(16 * 1024 * 1024))
    out.child.stdin!.write(`${decoyCall(2)}\n`)
    await eventually(() => expect(isDenied(out)).toBe(true))
    out.child.stdin!.end(`${call(3, 'b')}\n${call(4, 'c')}\n`)
    await ended(out.child)
    const [cut, ...others] = linesOf(out.shown)
    expect(/^x+$/.test(cut!)).toBe(true)
    expect(others.map((line) => JSON.parse(line))).toEqual([denial(2), { next: 1 }])
  })

  /** Starts a proxy that never cuts an open line because of its age alone: the timer of five seconds is left out. */
  const startWithoutCut = (home: AgentHome, args: string[]) => {
    const program = `const start = globalThis.setTimeout
      globalThis.setTimeout = (call, ms, ...args) => (ms === 5_000 ? undefined : start(call, ms, ...args))`
    return home.start(args, { NODE_OPTIONS: `--import ${home.write('without-cut.mjs', program)}` })
  }

  // The line is too long to buffer, so that it is open when the answer comes.
  test.each([
    ['ends', 'process.exit(0)'],
    ['closes its output but goes on', `require('fs').closeSync(1)`],
  ])('inserts its answer after a line that the server leaves open when it %s', async (_case, after) => {
    const long = 17 * 1024 * 1024
    const server = `process.stdout.write('x'.repeat(${long}))
      let count = 0
      const lines = require('readline').createInterface({ input: process.stdin })
      lines.on('line', () => { if (++count === 1) ${after} })`
    const child = startWithoutCut(newHome(), proxy('-e', server))
    const out = { shown: '' }
    const end = ended(child)
    child.stdin!.on('error', () => {})
    child.stdout!.on('data', (text) => {
      out.shown += text
    })
    await eventually(() => expect(out.shown.length).toBeGreaterThan(16 * 1024 * 1024))
    child.stdin!.write(`${decoyCall(1)}\n${call(2, 'a')}\n`)
    await eventually(() => expect(isDenied(out)).toBe(true))
    child.stdin!.end(`${decoyCall(3)}\n`)
    await end
    const [open, ...others] = linesOf(out.shown)
    expect(open).toBe('x'.repeat(long))
    expect(others.map((line) => JSON.parse(line))[0]).toEqual(denial(1))
    if (after.includes('close')) expect(others.map((line) => JSON.parse(line))).toEqual([denial(1), denial(3)])
  })

  const suspendedHome = async (instanceId: string) => {
    const home = newHome({ WARDLINE_INSTANCE_ID: instanceId, WARDLINE_KEY: await fleet.createKey([instanceId]) })
    await home.run(echoProxy, `${call(1, 'a')}\n`)
    await fleet.kill('exfiltration', instanceId)
    return home
  }

  test('cuts an open line at once when many answers wait for its end', async () => {
    const home = await suspendedHome('many')
    const server = `process.stdout.write('x'.repeat(${17 * 1024 * 1024}))
      process.stdin.resume()`
    const child = startWithoutCut(home, proxy('-e', server))
    const out = { shown: '' }
    child.stdout!.on('data', (text) => {
      out.shown += text
    })
    await eventually(() => expect(out.shown.length).toBeGreaterThan(16 * 1024 * 1024))
    for (let id = 0; id < 1_000; id++) child.stdin!.write(`${call(id, 'a')}\n`)
    await eventually(() => expect(out.shown).toContain('exfiltration'))
    child.stdin!.end()
    await new Promise((resolve) => child.once('close', resolve))
  })

  test('does not buffer for a client that does not read, and loses nothing', async () => {
    const count = 2_000
    const server = `let at = 0
      const next = () => {
        while (at < ${count}) {
          at += 1
          if (!process.stdout.write('{"jsonrpc":"2.0","method":"a","params":"' + at + 'x'.repeat(50_000) + '"}\\n')) break
        }
        console.error('at ' + at)
      }
      process.stdout.on('drain', next)
      process.stdin.resume()
      next()`
    const child = newHome().start(proxy('-e', server))
    child.stdout!.pause()
    let said = ''
    child.stderr!.on('data', (text) => {
      said += text
    })
    const written = () => Number(said.match(/at (\d+)\n$/)?.[1] ?? 0)
    // Calls that are denied meanwhile wait for the client as well.
    for (let id = 0; id < 50; id++) child.stdin!.write(`${decoyCall(id)}\n`)
    await eventually(() => expect(written()).toBeGreaterThan(0))
    await fleet.letTimePass()
    await eventually(async () => {
      const before = written()
      await fleet.letTimePass()
      expect(written()).toBe(before)
    })
    // 100 MB in all; the buffers of the pipes take less than one.
    expect(written()).toBeLessThan(count / 10)
    let shown = ''
    child.stdout!.setEncoding('utf8').on('data', (text) => {
      shown += text
    })
    child.stdout!.resume()
    child.stdin!.end()
    await new Promise((resolve) => child.once('close', resolve))
    const lines = linesOf(shown).map((line) => JSON.parse(line))
    expect(lines.filter(({ method }) => method).map(({ params }) => Number.parseInt(params, 10))).toEqual(
      Array.from({ length: count }, (_, place) => place + 1),
    )
    expect(lines.filter(({ result }) => result).map(({ id }) => id)).toEqual(Array.from({ length: 50 }, (_, id) => id))
  })

  test('reads no further calls while the client does not read the answers, and answers all', async () => {
    const home = await suspendedHome('unread')
    const count = 5_000
    const child = home.start(proxy('-e', 'process.stdin.resume()'))
    child.stdout!.pause()
    let written = 0
    function* calls() {
      for (; written < count; written++) yield `${call(written, 'x'.repeat(1_000))}\n`
    }
    child.stdin!.on('error', () => {})
    Readable.from(calls()).pipe(child.stdin!)
    await once(child.stderr!, 'data')
    await eventually(async () => {
      const before = written
      await fleet.letTimePass()
      expect(written).toBe(before)
    })
    expect(written).toBeLessThan(count)
    let shown = ''
    child.stdout!.setEncoding('utf8').on('data', (text) => {
      shown += text
    })
    child.stdout!.resume()
    await new Promise((resolve) => child.once('close', resolve))
    expect(linesOf(shown).map((line) => JSON.parse(line).id)).toEqual(Array.from({ length: count }, (_, id) => id))
  })

  // A client could otherwise make many calls ahead for a slow server, and they would run while the agent is suspended.
  test('denies calls that still wait for the server when the agent is suspended', async () => {
    const key = await fleet.createKey(['ahead'])
    const home = newHome({ WARDLINE_INSTANCE_ID: 'ahead', WARDLINE_KEY: key })
    const server = `const { existsSync } = require('node:fs')
      const timer = setInterval(() => {
        if (!existsSync('suspended')) return
        clearInterval(timer)
        process.stdin.pipe(process.stdout)
      }, 5)`
    const child = home.start(proxy('-e', server))
    const end = ended(child)
    const count = 60
    for (let id = 0; id < count; id++) child.stdin!.write(`${call(id, `${id} ${'a '.repeat(10_000)}`)}\n`)
    child.stdin!.end(`${call(count, 'the last one of all')}\n`)
    await eventually(() => expect(fleet.wire.sent).toContain('the last one of all'))
    await fleet.letTimePass()
    await fleet.kill('exfiltration', 'ahead')
    await eventually(async () =>
      expect(await fleet.suspensions('ahead')).toMatchObject([{ acknowledged_at: expect.any(String) }]),
    )
    home.write('suspended', '')
    const lines = linesOf((await end).stdout).map((line) => JSON.parse(line))
    expect(lines.map(({ id }) => id).toSorted((a, b) => a - b)).toEqual(
      Array.from({ length: count + 1 }, (_, id) => id),
    )
    // Nothing recalls what the pipe has taken.
    const forwarded = lines.filter(({ method }) => method)
    expect(forwarded.length).toBeLessThan(count / 2)
    expect(lines.filter(({ result }) => result?.isError).length).toBe(count + 1 - forwarded.length)
  })
})
