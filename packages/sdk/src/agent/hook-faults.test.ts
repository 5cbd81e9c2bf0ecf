import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, rmSync, utimesSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { AgentHome, ended, sample, startStranger } from '../testing/agent-command.ts'
import { answerPlainly, sendJson, startHostileService } from '../testing/hostile-service.ts'
import { agentId, eventually, TestFleet } from '../testing/service.ts'

// A failing hook blocks the call or allows it with a warning, by its fail mode. It never hangs, and with "closed" it
// never exits in a way that a coding agent treats as permission.
const slow = { timeout: 60_000 }

let fleet: TestFleet
beforeAll(async () => {
  fleet = await TestFleet.open()
}, 60_000)
afterAll(() => fleet[Symbol.asyncDispose]())

const newHome = (env: Record<string, string> = {}) =>
  new AgentHome({
    WARDLINE_URL: fleet.wire.url,
    WARDLINE_KEY: fleet.agentKey,
    WARDLINE_INSTANCE_ID: agentId,
    ...env,
  })

const call = sample('claude-code.PreToolUse.Bash.agent-sdk-0.3.330')
const warning = expect.stringMatching(/^\{"systemMessage":"wardline-agent: [^"]*"\}\n$/)
const unchecked = 'The security monitor could not check this call, and does not allow unchecked calls.'

interface FaultCase {
  says: RegExp
  env?: Record<string, string>
  input?: string
  before?: (home: AgentHome) => unknown
}

const faultCases: Record<string, FaultCase> = {
  'the service is not there': {
    says: /No answer from 127\.0\.0\.1:1 \(ECONNREFUSED\)/,
    env: { WARDLINE_URL: 'http://127.0.0.1:1' },
  },
  'the name of the service is not known': {
    says: /No answer from wardline\.invalid/,
    env: { WARDLINE_URL: 'http://wardline.invalid' },
  },
  'the service speaks no TLS': {
    says: /No answer/,
    before: (home) => {
      home.env.WARDLINE_URL = fleet.wire.url.replace('http:', 'https:')
    },
  },
  'the key is not valid': {
    says: /does not accept the key of agent-1 \(401\)\. Create one where the service runs: wardline keys create/,
    env: { WARDLINE_KEY: 'wl_agent_000000000000_wrong' },
  },
  'the key is bound to another instance': {
    says: /does not allow the key \w{8} for the instance other \(403\): .*wardline keys create .*--instance other/,
    env: { WARDLINE_INSTANCE_ID: 'other' },
  },
  'the service fails': {
    says: /answers with 500/,
    before: async (home) => {
      home.env.WARDLINE_URL = await startStranger(500, '{"error":"no"}')
    },
  },
  'the service cannot check now': {
    says: /answers with 503/,
    before: async (home) => {
      home.env.WARDLINE_URL = await startHostileService((request, response, body) => {
        if (!request.url?.includes('/check/')) return answerPlainly(request, response, body)
        sendJson(response, 503, { error: 'no' }, { 'retry-after': '1', 'x-error-code': 'unavailable' })
      })
    },
  },
  'something else listens there': {
    says: /answers with 404|no version/,
    before: async (home) => {
      home.env.WARDLINE_URL = await startStranger(200, '<html>')
    },
  },
  'the answer is a redirect': {
    says: /redirect \(302\)/,
    before: async (home) => {
      home.env.WARDLINE_URL = await startStranger(302, '', { location: fleet.wire.url })
    },
  },
  'the answer is endless': {
    says: /No answer/,
    before: async (home) => {
      home.env.WARDLINE_URL = await startStranger(200, 'x'.repeat(3_000_000))
    },
  },
  'there are no settings': { says: /setting for the address of the service is missing/, env: { WARDLINE_URL: '' } },
  'there is no key': { says: /setting for a key is missing/, env: { WARDLINE_KEY: '' } },
  'the address is none': { says: /url must be an http or https address/, env: { WARDLINE_URL: 'nowhere' } },
  'the instance id is none': { says: /instanceId must have/, env: { WARDLINE_INSTANCE_ID: 'Not an id' } },
  'the key file is not there': {
    says: /key file .* cannot be read \(ENOENT\)/,
    env: { WARDLINE_KEY: '', WARDLINE_KEY_FILE: '/nowhere/key' },
  },
  'the input is empty': { says: /not JSON/, input: '' },
  'the input is not JSON': { says: /not JSON/, input: '{"hook_event_name":"PreToolUse"' },
  'the input is a list': { says: /no hook_event_name/, input: '[]' },
  'the input names no tool': { says: /no tool_name/, input: '{"hook_event_name":"PreToolUse","tool_input":{}}' },
  'the input has no arguments': { says: /no tool_input/, input: '{"hook_event_name":"PreToolUse","tool_name":"Bash"}' },
}

describe.each(Object.entries(faultCases))('while %s', slow, (_name, { says, env = {}, input, before }) => {
  const hook = async (args: string[], more: Record<string, string> = {}) => {
    const home = newHome({ ...env, ...more })
    await before?.(home)
    return home.hook(args, input ?? call)
  }

  test('a hook that fails closed blocks the call', async () => {
    const answer = await hook(['claude-code'], { WARDLINE_FAIL_MODE: 'closed' })
    expect(answer).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(says) })
    expect(answer.stderr.startsWith(unchecked)).toBe(true)
  })

  // Standard error of a hook that exits with 0 is not shown. A decision would skip the user's prompt.
  test('a hook that fails open allows the call, with a warning that the user sees', async () => {
    const answer = await hook(['claude-code'])
    expect(answer).toMatchObject({ code: 0, stderr: expect.stringMatching(says) })
    expect(JSON.parse(answer.stdout)).toEqual({ systemMessage: answer.stderr.trimEnd() })
  })

  test('a hook of Cursor answers in JSON in both fail modes', async () => {
    const [closed, open] = await Promise.all([hook(['cursor', '--fail-closed']), hook(['cursor'])])
    expect(JSON.parse(closed!.stdout)).toMatchObject({ permission: 'deny', agent_message: expect.stringMatching(says) })
    const permission = input === undefined ? 'allow' : 'ask'
    expect(JSON.parse(open!.stdout)).toEqual({ continue: true, permission })
    expect([closed!.code, open!.code]).toEqual([0, 0])
  })
})

test('a hook that fails open warns the user of Codex on each call', slow, async () => {
  const home = newHome({ WARDLINE_URL: 'http://127.0.0.1:1' })
  for (let times = 0; times < 2; times++) {
    const answer = await home.hook(['codex'], call)
    expect(answer).toMatchObject({ code: 0, stdout: warning, stderr: expect.stringContaining('No answer') })
  }
})

// Where "allow" could replace the user's approval, a failed check would otherwise run the command unseen.
test.each(['beforeShellExecution', 'beforeMCPExecution'])(
  'an unchecked call in %s of Cursor asks the user',
  slow,
  async (event) => {
    const home = newHome({ WARDLINE_KEY: 'wl_agent_000000000000_wrong' })
    const { stdout } = await home.hook(['cursor'], sample(`cursor.${event}.cursor-docs-2026-08`))
    expect(JSON.parse(stdout)).toEqual({ continue: true, permission: 'ask' })
  },
)

describe('a hook', slow, () => {
  test.each(['stall', 'refuse'] as const)('exits in time while the service does not answer (%s)', async (mode) => {
    fleet.wire.mode = mode
    try {
      const [closed, open] = await Promise.all([
        newHome().hook(['codex', '--fail-closed'], call),
        newHome().hook(['codex'], call),
      ])
      expect(closed).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('No answer') })
      expect(open).toMatchObject({ code: 0, stderr: expect.stringContaining('No answer') })
    } finally {
      fleet.wire.mode = 'pass'
    }
  })

  // Otherwise the writer of the arguments could avoid the check.
  test.each([
    ['open', 1_100_000, 'larger than 1048576 characters'],
    ['closed', 1_100_000, 'larger than 1048576 characters'],
    ['open', 8 * 1024 * 1024, 'larger than 8388608 bytes'],
    ['closed', 8 * 1024 * 1024, 'larger than 8388608 bytes'],
  ])('with fail mode "%s" blocks a call with %i bytes of arguments', async (failMode, size, says) => {
    await fleet.plantKey('openai')
    const input = { ...call, tool_input: { content: 'x'.repeat(size) } }
    const answer = await newHome({ WARDLINE_FAIL_MODE: failMode }).hook(['claude-code'], input)
    expect(answer).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining(says) })
    const { stdout } = await newHome({ WARDLINE_FAIL_MODE: failMode }).hook(['cursor'], input)
    expect(JSON.parse(stdout)).toMatchObject({ permission: 'deny', agent_message: expect.stringContaining(says) })
  })

  test('exits in time if its input does not end', async () => {
    const child = newHome().start(['hook', 'claude-code', '--fail-closed'])
    child.stdin!.write('{"hook_event_name":')
    expect(await ended(child)).toMatchObject({ code: 2, stderr: expect.stringContaining('did not end within') })
    const other = newHome().start(['hook', 'claude-code'])
    expect(await ended(other)).toMatchObject({ code: 0, stderr: expect.stringContaining('did not end within') })
  })

  // Codex treats a hook that does not read to the end as broken, and runs the call.
  test('reads its input to the end even if it is too large', async () => {
    const child = newHome().start(['hook', 'codex', '--fail-closed'])
    const end = ended(child)
    const failures: Error[] = []
    child.stdin!.on('error', (fault) => failures.push(fault))
    await new Promise((resolve) => child.stdin!.write('x'.repeat(9_000_000), resolve))
    child.stdin!.end()
    expect(await end).toMatchObject({ code: 2 })
    expect(failures).toEqual([])
  })

  test('blocks in every fail mode if its command line is wrong', async () => {
    for (const args of [['claud-code'], ['claude-code', '--fail-open'], ['claude-code', 'codex']]) {
      expect(await newHome().hook(args, call), args.join(' ')).toMatchObject({
        code: 2,
        stdout: '',
        stderr: expect.stringContaining('configured wrongly'),
      })
    }
  })

  // For example a disk error or an incomplete update. Settings that could not be read may say "closed"; settings that
  // were read apply.
  test.each([
    ['fstatSync', 'closed', 2],
    ['fstatSync', 'open', 2],
    ['fstatSync', '', 2],
    ['statSync', 'closed', 2],
    ['statSync', '', 0],
  ])('with an internal error (%s) follows its fail mode ("%s")', async (broken, failMode, code) => {
    const home = newHome({ WARDLINE_FAIL_MODE: failMode })
    home.write('.config/wardline/agent.json', {})
    const program = `import fs from 'node:fs'
      import { syncBuiltinESMExports } from 'node:module'
      fs.${broken} = () => { throw new RangeError('inner') }
      syncBuiltinESMExports()`
    const file = home.write('broken.mjs', program)
    const answer = await home.hook(['claude-code'], call, { NODE_OPTIONS: `--import ${file}` })
    const stdout = code === 0 ? warning : ''
    expect(answer).toMatchObject({ code, stdout, stderr: expect.stringContaining('The hook failed: inner') })
  })

  test('counts unreported calls, and reports the count once the service answers', async () => {
    const home = newHome()
    const at = (id: string) => ({ ...call, tool_use_id: id })
    fleet.wire.mode = 'refuse'
    await Promise.all([home.hook(['claude-code'], at('a')), home.hook(['claude-code'], at('b'))])
    fleet.wire.mode = 'pass'
    await home.hook(['claude-code'], at('c'))
    await eventually(async () =>
      expect((await fleet.events('sdk_events_dropped'))[0]).toMatchObject({
        instance_id: agentId,
        metadata: { count: 2 },
      }),
    )
    await home.hook(['claude-code'], at('d'))
    expect(await fleet.events('sdk_events_dropped')).toHaveLength(1)
  })

  test('allows a checked call that cannot be reported, with a warning', async () => {
    fleet.wire.cut = /events\/batch/
    try {
      const answer = await newHome().hook(['claude-code', '--fail-closed'], { ...call, tool_use_id: 'unreported' })
      expect(answer).toMatchObject({ code: 0, stdout: warning, stderr: expect.stringContaining('was not reported') })
    } finally {
      fleet.wire.cut = /(?!)/
    }
  })

  test('allows the call with a warning if its state cannot be stored', async () => {
    const home = newHome()
    home.write('.local/state', 'a file where a folder should be')
    const answer = await home.hook(['claude-code', '--fail-closed'], { ...call, tool_use_id: 'unkept' })
    expect(answer).toMatchObject({ code: 0, stdout: warning, stderr: expect.stringContaining('cannot be stored') })
  })

  test('allows the call with a warning if its suspend log cannot be read', async () => {
    const home = newHome()
    await home.hook(['claude-code'], { ...call, tool_use_id: 'unread' })
    const [contact] = readdirSync(home.path('.local/state/wardline')).filter((name) => name.endsWith('.contact'))
    mkdirSync(home.path('.local/state/wardline', contact!.replace('.contact', '.log')))
    const answer = await home.hook(['claude-code', '--fail-closed'], call)
    expect(answer).toMatchObject({
      code: 0,
      stdout: warning,
      stderr: expect.stringMatching(/suspend log .* cannot be read/),
    })
  })

  // Otherwise another process that can write there could block the hook until the coding agent gives up on it and runs
  // the call.
  test.each(['log', 'log.1', 'beat', 'contact', 'lost'])(
    'does not block on a FIFO in place of its %s',
    async (name) => {
      const home = newHome()
      await home.hook(['claude-code'], { ...call, tool_use_id: `before ${name}` })
      const [contact] = readdirSync(home.path('.local/state/wardline')).filter((file) => file.endsWith('.contact'))
      const file = home.path('.local/state/wardline', contact!.replace('contact', name))
      rmSync(file, { force: true })
      execFileSync('mkfifo', ['-m', '600', file])
      if (name === 'beat' || name === 'contact') utimesSync(file, 0, 0)
      if (name === 'lost') fleet.wire.cut = /events\/batch/
      try {
        const answer = await home.hook(['claude-code'], { ...call, tool_use_id: `after ${name}` })
        expect(answer).toMatchObject({ code: 0 })
        expect(answer.stdout).not.toContain('ermission')
        expect(answer.stderr).not.toContain('took longer')
      } finally {
        fleet.wire.cut = /(?!)/
      }
    },
  )

  // Output of the hook may be shown to a model and kept in a transcript.
  test('never prints its key', async () => {
    const key = 'wl_agent_000000000000_verysecret'
    const echoing = await startStranger(418, JSON.stringify({ error: `no ${key} here` }))
    const answers = await Promise.all([
      newHome({ WARDLINE_KEY: key, WARDLINE_URL: echoing }).hook(['claude-code'], call),
      newHome({ WARDLINE_KEY: `${key} ` }).hook(['claude-code'], call),
      newHome({ WARDLINE_KEY: key, WARDLINE_URL: `http://user:${key}@127.0.0.1:1` }).hook(['claude-code'], call),
    ])
    for (const { stdout, stderr } of answers) expect(stdout + stderr).not.toContain('verysecret')
  })
})

// Text that is costly to search, in front of the decoy, until the time of the check is over.
describe('costly arguments', slow, () => {
  const write = (content: string) => ({ ...call, tool_name: 'Write', tool_input: { file_path: '/tmp/a', content } })
  const open = { WARDLINE_FAIL_MODE: 'open' }

  test.each([8, 14])('of %i parts do not hide a decoy from the service', async (parts) => {
    const home = newHome({ WARDLINE_KEY: await fleet.createKey([agentId]), ...open })
    const decoyKey = await fleet.plantKey('openai')
    const padding = Array.from({ length: parts }, (_, part) => `${part} ${'H4sI'.repeat(7_900)}\n`).join('')
    expect(await home.hook(['claude-code'], write(`${padding}Bearer ${decoyKey}`))).toMatchObject({ code: 2 })
  })

  test.each([
    ['a few long parts', 100_000],
    ['many long parts', 900_000],
    ['a single short part', 60],
  ])('of %s without an answer are blocked while a harmless text is answered', async (_size, length) => {
    const url = await startHostileService((request, response, body) => {
      if (!request.url?.includes('/check/key') || !body.includes('filler')) answerPlainly(request, response, body)
    })
    const { code, stderr } = await newHome({ WARDLINE_URL: url, ...open }).hook(
      ['claude-code'],
      write('some words of filler\n'.repeat(length / 21)),
    )
    expect({ code, stderr }).toMatchObject({ code: 2, stderr: expect.stringContaining('did not check all') })
  })

  test('are decided on by the fail mode while no text is answered', async () => {
    const url = await startHostileService((request, response, body) => {
      if (!request.url?.includes('/check/')) answerPlainly(request, response, body)
    })
    const content = 'some words of filler\n'.repeat(40_000)
    const home = newHome({ WARDLINE_URL: url })
    expect(await home.hook(['claude-code'], write(content), open)).toMatchObject({ code: 0 })
    expect(await home.hook(['claude-code'], write(content), { WARDLINE_FAIL_MODE: 'closed' })).toMatchObject({
      code: 2,
    })
  })
})
