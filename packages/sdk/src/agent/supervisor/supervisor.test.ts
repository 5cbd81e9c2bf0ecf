import { spawn, spawnSync } from 'node:child_process'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { agentId, TestFleet } from '../../testing/service.ts'
import {
  canHideCgroup,
  environmentOf,
  eventually,
  groupOf,
  groupsOf,
  hasProgram,
  isAlive,
  isHeld,
  isSupervisor,
  Supervised,
  stateOf,
  userOf,
} from '../../testing/supervised.ts'

const slow = { timeout: 400_000 }

let fleet: TestFleet
beforeAll(async () => {
  fleet = await TestFleet.open()
}, 60_000)
afterAll(() => fleet[Symbol.asyncDispose]())

const shell = (script: string) => ['sh', '-c', script]
const loop = 'echo begun; while :; do sleep 0.05; done'
const begun = async ({ stdout }: { stdout: NodeJS.ReadableStream | null }) => {
  let text = ''
  stdout!.on('data', (more) => {
    text += more
  })
  await eventually(() => expect(text).toContain('begun'))
}
const confirmed = () => eventually(async () => expect((await fleet.instance()).control.confirmed).toBe(true))

describe('without a suspension', slow, () => {
  test.each([
    ['its exit code', 'exit 7', 7],
    ['128 and its signal', 'kill -TERM $$', 143],
  ])('the command ends with %s', async (_name, script, code) => {
    expect((await new Supervised(fleet).start(shell(script)).ended).code).toBe(code)
  })

  test('a command that cannot be started ends with 127 or 126, wrong options with 64, no settings with 78', async () => {
    const supervised = new Supervised(fleet)
    const file = supervised.home.write('no-program', 'text')
    const codes = [
      supervised.start(['no-such-program-anywhere']),
      supervised.start([file]),
      supervised.start(['true'], { options: ['--on-suspend', 'wait'] }),
      supervised.start(['true'], { options: ['--end-after', 'soon'] }),
      supervised.start(['true'], { options: ['--unknown'] }),
      supervised.start(['true'], { env: { WARDLINE_KEY: '' } }),
    ].map(async ({ ended }) => (await ended).code)
    expect(await Promise.all(codes)).toEqual([127, 126, 64, 64, 64, 78])
  })

  test('standard input, output and error pass through', async () => {
    // With another key, the supervisor says that its evidence does not count.
    const key = await fleet.createKey([agentId], { supervises: true })
    const { child, ended } = new Supervised(fleet).start(shell('cat; echo fault >&2'), { env: { WARDLINE_KEY: key } })
    child.stdin!.end('input\n')
    expect(await ended).toMatchObject({ code: 0, stdout: 'input\n', stderr: 'fault\n' })
  })

  test.each(['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'] as const)(
    '%s reaches the command once',
    async (signal) => {
      const name = signal.slice(3)
      const { child, ended } = new Supervised(fleet).start(
        shell(`trap 'echo got' ${name}; trap 'exit 3' ${name === 'TERM' ? 'INT' : 'TERM'}; ${loop}`),
      )
      await begun(child)
      child.kill(signal)
      let text = ''
      child.stdout!.on('data', (more) => {
        text += more
      })
      await eventually(() => expect(text).toContain('got'))
      child.kill(name === 'TERM' ? 'SIGINT' : 'SIGTERM')
      expect(await ended).toMatchObject({ code: 3, stdout: 'begun\ngot\n' })
    },
  )

  // A process of the agent could otherwise act for its supervisor.
  test('the command does not have the key of its supervisor', async () => {
    const supervised = new Supervised(fleet)
    const file = supervised.home.write('key', fleet.agentKey)
    const { child } = supervised.start(shell(`sleep 600 & ${loop}`), { env: { WARDLINE_KEY_FILE: file } })
    await begun(child)
    // One that ended just now has an empty environment.
    const environments = supervised
      .processes()
      .map(environmentOf)
      .filter(([first]) => first)
    expect(environments.length).toBeGreaterThanOrEqual(2)
    for (const environment of environments) {
      const names = environment.map((text) => text.split('=')[0])
      expect(names).toContain('WARDLINE_SUPERVISED')
      expect(names).toContain('WARDLINE_URL')
      expect(names).not.toContain('WARDLINE_KEY')
      expect(names).not.toContain('WARDLINE_KEY_FILE')
      expect(environment.join()).not.toContain(fleet.agentKey)
    }
  })

  test('what the command leaves ends with it', async () => {
    const supervised = new Supervised(fleet)
    const { ended } = supervised.start(shell('(setsid sleep 600 &) ; sleep 600 & exit 5'))
    expect((await ended).code).toBe(5)
    expect(supervised.processes()).toEqual([])
  })

  test('a drill finds all processes', async () => {
    const { child } = new Supervised(fleet).start(shell(loop))
    await begun(child)
    await eventually(() => expect(fleet.wire.asked(/\/control$/).length).toBeGreaterThan(0))
    fleet.wire.sent = ''
    await eventually(async () => expect(await fleet.drill()).toMatchObject({ asked: 1, answered: 1 }))
    expect(fleet.wire.sent).toMatch(/"supervisor":\{"processes":\d+,"unreachable":0\}/)
    expect(fleet.wire.sent).not.toContain('boot_id')
    child.kill('SIGKILL')
  })
})

describe('the end of the supervisor', slow, () => {
  test('SIGKILL ends the agent, also while it is frozen, and a child that left its session', async () => {
    for (const isFrozen of [false, true]) {
      const supervised = new Supervised(fleet)
      const { child } = supervised.start(shell(`(setsid sleep 600 &) ; trap '' TERM HUP; ${loop}`))
      await begun(child)
      if (isFrozen) {
        await fleet.kill('test')
        await supervised.held(2)
      }
      child.kill('SIGKILL')
      await supervised.gone()
      if (isFrozen) await fleet.resume()
      await eventually(() => expect(supervised.processes('all')).toEqual([]))
    }
  })

  test('SIGKILL leaves the agent with --on-crash leave', async () => {
    const supervised = new Supervised(fleet)
    const { child } = supervised.start(shell(loop), { options: ['--on-crash', 'leave'] })
    await begun(child)
    expect(supervised.watcher).toBeUndefined()
    const [pid] = supervised.processes()
    child.kill('SIGKILL')
    await eventually(() => expect(isAlive(child.pid!)).toBe(false))
    await fleet.letTimePass()
    expect(isAlive(pid!)).toBe(true)
  })

  test('SIGKILL of its group, and SIGTERM to its watcher before, end the agent', async ({ skip }) => {
    if (!hasProgram('setsid')) return skip('setsid is not installed')
    const supervised = new Supervised(fleet)
    const { child } = supervised.start(shell(`(setsid sleep 600 &) ; ${loop}`), { starter: ['setsid'] })
    await begun(child)
    const watcher = await eventually(() => {
      expect(supervised.watcher).toBeDefined()
      return supervised.watcher!
    })
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.kill(watcher, signal)
    process.kill(-child.pid!, 'SIGKILL')
    await supervised.gone()
  })

  // An agent of the same user could end the one first, then the other.
  test('a watcher that was ended is replaced', async () => {
    const supervised = new Supervised(fleet)
    const { child } = supervised.start(shell(loop))
    await begun(child)
    const first = await eventually(() => {
      expect(supervised.watcher).toBeDefined()
      return supervised.watcher!
    })
    process.kill(first, 'SIGKILL')
    await eventually(() => expect(supervised.watcher ?? first).not.toBe(first))
    child.kill('SIGKILL')
    await supervised.gone()
  })
})

describe('during a suspension', slow, () => {
  test('the acknowledgement says what is held, and no heartbeat acknowledges before it', async () => {
    const supervised = new Supervised(fleet)
    const { child } = supervised.start(shell(`sleep 600 & ${loop}`))
    await begun(child)
    fleet.wire.sent = ''
    await fleet.kill('test')
    await confirmed()
    const version = (await fleet.instance()).control.version
    const body = new RegExp(
      `\\{"version":${version},"supervisor":\\{"action":"freeze","processes":\\d+,"left":0,"ms":\\d+\\}\\}`,
    )
    expect(fleet.wire.sent).toMatch(body)
    await fleet.resume()
    await confirmed()
    child.kill('SIGKILL')
  })

  test('it is enforced with the key of a supervisor; with another one it is confirmed, and the supervisor says why', async () => {
    const state = async () => (await fleet.instance()).suspension?.state
    const key = await fleet.createKey([agentId], { supervises: true })
    for (const [env, expected] of [
      [{}, 'confirmed'],
      [{ WARDLINE_KEY: key }, 'enforced'],
    ] as const) {
      const supervised = new Supervised(fleet)
      const { child, ended } = supervised.start(shell(loop), { env })
      await begun(child)
      await fleet.kill('test')
      await supervised.held(1)
      await eventually(async () => expect(await state()).toBe(expected))
      await fleet.resume()
      child.kill('SIGTERM')
      expect((await ended).stderr.includes(`--instance ${agentId} --supervisor`)).toBe(expected === 'confirmed')
    }
  })

  test('it is no longer enforced while others continue a process, and again once they do not', async ({ skip }) => {
    if (!canHideCgroup) return skip('the cgroup cannot be hidden, and nobody continues a process in it')
    const key = await fleet.createKey([agentId], { supervises: true })
    const supervised = new Supervised(fleet)
    const { child } = supervised.start(shell(loop), { env: { WARDLINE_KEY: key }, hidesCgroup: true })
    await begun(child)
    await fleet.kill('test')
    const newest = async () => (await fleet.suspensions())[0]!
    await eventually(async () => expect(await newest()).toMatchObject({ enforced_by: 'supervisor', left_processes: 0 }))
    const [pid] = supervised.processes()
    const others = spawn(process.execPath, ['-e', `for (;;) process.kill(-${groupOf(pid!)}, 'SIGCONT')`])
    onTestFinished(() => void others.kill('SIGKILL'))
    await eventually(async () => expect(await fleet.events('supervisor_incomplete')).toHaveLength(1))
    others.kill('SIGKILL')
    await eventually(async () => expect(await newest()).toMatchObject({ enforced_by: 'supervisor', left_processes: 0 }))
    await fleet.resume()
    child.kill('SIGKILL')
  })

  test('an agent starts with the resume, also when the service is away after a restart', async () => {
    const supervised = new Supervised(fleet)
    await fleet.kill('test')
    const first = supervised.start(shell('echo begun'))
    await first.says('The command starts with the resume.')
    await confirmed()
    expect(first.child.exitCode).toBeNull()
    first.child.kill('SIGTERM')
    expect((await first.ended).code).toBe(143)
    fleet.wire.mode = 'refuse'
    const second = supervised.start(shell('echo begun'))
    await second.says('The command starts with the resume.')
    await second.says('No answer from')
    expect(supervised.processes()).toEqual([])
    fleet.wire.mode = 'pass'
    await fleet.resume()
    expect(await second.ended).toMatchObject({ code: 0, stdout: 'begun\n' })
  })

  test('while the service is away, an agent starts failing open, and waits failing closed', async () => {
    const supervised = new Supervised(fleet)
    fleet.wire.mode = 'refuse'
    const open = supervised.start(shell('echo begun'))
    expect(await open.ended).toMatchObject({ code: 0, stdout: 'begun\n' })
    const closed = supervised.start(shell('echo begun'), { env: { WARDLINE_FAIL_MODE: 'closed' } })
    await closed.says('The command starts with the resume.')
    fleet.wire.mode = 'pass'
    expect(await closed.ended).toMatchObject({ code: 0, stdout: 'begun\n' })
  })

  // Another program with the id of a suspended agent, or the same one on a machine without its state.
  test('two agents under one id are both held, and a third one does not start', async () => {
    const [first, second, third] = [new Supervised(fleet), new Supervised(fleet), new Supervised(fleet)]
    for (const each of [first, second]) await begun(each.start(shell(loop)).child)
    await fleet.kill('test')
    const started = third.start(shell('echo begun'))
    await Promise.all([first.held(1), second.held(1), started.says('The command starts with the resume.')])
    expect(third.processes()).toEqual([])
    await fleet.resume()
    expect(await started.ended).toMatchObject({ code: 0, stdout: 'begun\n' })
    await Promise.all([first.running(1), second.running(1)])
  })

  test('a kill arrives without the control stream, and holds while the service is away', async () => {
    const supervised = new Supervised(fleet)
    fleet.wire.cut = /\/control$/
    const started = supervised.start(shell(loop))
    const { child } = started
    await begun(child)
    await fleet.kill('test')
    await started.says('held within')
    fleet.wire.mode = 'refuse'
    fleet.wire.cutAll()
    await started.says('No answer from')
    expect(supervised.processes().filter((pid) => !isHeld(pid))).toEqual([])
    fleet.wire.mode = 'pass'
    fleet.wire.cut = /(?!)/
    await fleet.resume()
    await supervised.running(1)
    child.kill('SIGKILL')
  })

  test('failing closed, an agent is held after silence, until the next contact', async () => {
    const supervised = new Supervised(fleet)
    const { home } = supervised
    // The only setting that the command does not have.
    const module = (name: string) => JSON.stringify(new URL(name, import.meta.url).href)
    const file = home.write(
      'wardline-agent.ts',
      `import { readOptions } from ${module('../../options.ts')}
       import { readRunOptions } from ${module('./run-options.ts')}
       import { Supervisor } from ${module('./supervisor.ts')}
       const { env } = process
       const settings = readOptions({ url: env.WARDLINE_URL, key: env.WARDLINE_KEY, instanceId: env.WARDLINE_INSTANCE_ID, name: 'x', failMode: 'closed', staleAfterMs: 2_000 })
       const options = readRunOptions(['--on-crash', 'leave', '--', 'sh', '-c', ${JSON.stringify(loop)}])
       process.exit(await new Supervisor({ settings, options, account: undefined, env, warn: () => {} }).run())`,
    )
    const child = spawn(process.execPath, ['--conditions=wardline-source', file, 'run'], { env: home.env })
    onTestFinished(() => void child.kill('SIGKILL'))
    await begun(child)
    fleet.wire.mode = 'refuse'
    fleet.wire.cutAll()
    await supervised.held(1)
    fleet.wire.mode = 'pass'
    await supervised.running(1)
  })

  test('a resume that arrives during the end of --on-suspend end changes nothing', async () => {
    const supervised = new Supervised(fleet)
    const { child, ended } = supervised.start(shell(`trap 'echo asked' TERM; ${loop}`), {
      options: ['--on-suspend', 'end'],
    })
    let text = ''
    child.stdout!.on('data', (more) => {
      text += more
    })
    await eventually(() => expect(text).toContain('begun'))
    await fleet.kill('test')
    await eventually(() => expect(text).toContain('asked'))
    await fleet.resume()
    expect((await ended).code).toBe(137)
  })

  test('--on-suspend end sends SIGTERM, and SIGKILL to what stays', async () => {
    const supervised = new Supervised(fleet)
    const { child, ended } = supervised.start(
      shell(`sh -c "trap '' TERM; while :; do sleep 0.05; done" & trap 'echo asked; exit 4' TERM; ${loop}`),
      { options: ['--on-suspend', 'end'] },
    )
    await begun(child)
    fleet.wire.sent = ''
    await fleet.kill('test')
    expect(await ended).toMatchObject({ code: 4, stdout: 'begun\nasked\n' })
    expect(supervised.processes()).toEqual([])
    expect(fleet.wire.sent).toMatch(/"supervisor":\{"action":"end","processes":\d+,"left":0,"ms":\d+\}/)
    expect((await fleet.instance()).control.confirmed).toBe(true)
    await fleet.resume()
  })

  test('--end-after ends a frozen agent without running it', async () => {
    const supervised = new Supervised(fleet)
    const { child, ended } = supervised.start(shell(`trap 'echo asked' TERM; ${loop}`), {
      options: ['--end-after=1'],
    })
    await begun(child)
    fleet.wire.sent = ''
    await fleet.kill('test')
    expect(await ended).toMatchObject({ code: 137, stdout: 'begun\n' })
    expect(fleet.wire.sent).toMatch(/"action":"freeze".*"action":"end"/s)
    await fleet.resume()
  })

  test('SIGTERM to the supervisor ends a frozen agent without running it', async () => {
    const supervised = new Supervised(fleet)
    const { child, ended } = supervised.start(shell(`trap 'echo asked' TERM; ${loop}`))
    await begun(child)
    await fleet.kill('test')
    await supervised.held(1)
    child.kill('SIGTERM')
    expect(await ended).toMatchObject({ code: 143, stdout: 'begun\n' })
    expect(supervised.processes()).toEqual([])
    await fleet.resume()
  })

  // What follows what, while the agent runs: each pair ends in the state that the last one asks for.
  test.each([
    ['a kill, then a resume', ['kill', 'resume'], false],
    ['a resume right after a kill, and again', ['kill', 'resume', 'kill', 'resume', 'kill', 'resume'], false],
    ['a kill right after a resume', ['kill', 'resume', 'kill'], true],
  ] as const)('%s', async (_name, steps, isHeldAtEnd) => {
    const supervised = new Supervised(fleet)
    const { child } = supervised.start(shell(`sleep 600 & ${loop}`))
    await begun(child)
    for (const step of steps) await (step === 'kill' ? fleet.kill('test') : fleet.resume())
    await confirmed()
    if (isHeldAtEnd) await supervised.held(2)
    else await supervised.running(2)
    if (isHeldAtEnd) await fleet.resume()
    await supervised.running(2)
    child.kill('SIGKILL')
    await supervised.gone()
  })
})

test.skipIf(process.getuid?.() !== 0 || spawnSync('id', ['nobody']).status !== 0)(
  '--user starts the agent as another user, without groups, and says so',
  slow,
  async () => {
    const supervised = new Supervised(fleet)
    fleet.wire.sent = ''
    const { child } = supervised.start(shell('echo begun; exec sleep 600'), { options: ['--user', 'nobody'] })
    await begun(child)
    const [pid] = supervised.processes('all').filter((each) => userOf(each) !== 0)
    expect(userOf(pid!)).toBe(Number(spawnSync('id', ['-u', 'nobody'], { encoding: 'utf8' }).stdout))
    expect(groupsOf(pid!)).toBe('')
    expect(environmentOf(pid!)).toContain('USER=nobody')
    await fleet.kill('test')
    await confirmed()
    expect(fleet.wire.sent).toMatch(/"supervisor":\{"processes":\d+,"isolated":true\}/)
    await fleet.resume()
    child.kill('SIGKILL')
    await eventually(() => expect(isAlive(pid!)).toBe(false))
  },
)

describe.skipIf(!hasProgram('script'))('on a terminal', slow, () => {
  const start = async (supervised: Supervised, script: string) => {
    const started = supervised.start(shell(script), { onTerminal: true })
    let text = ''
    started.child.stdout!.on('data', (more) => {
      text += more
    })
    const shows = (part: string) => eventually(() => expect(text).toContain(part))
    const type = (keys: string) => started.child.stdin!.write(keys)
    return { ...started, text: () => text, shows, type }
  }

  test('the agent is in the foreground, and Ctrl-C reaches it once', async () => {
    const supervised = new Supervised(fleet)
    const agent = await start(supervised, `trap 'echo got' INT; ps -o stat= -p $$; read x </dev/tty; echo $x; ${loop}`)
    await agent.shows('+')
    agent.type('typed\n')
    await agent.shows('begun')
    agent.type('\x03')
    await agent.shows('got')
    await fleet.letTimePass()
    expect(agent.text().match(/got/g)).toHaveLength(1)
    await fleet.kill('test')
    await supervised.held(1)
    await fleet.resume()
    await supervised.running(1)
  })

  // Such a terminal sends no signal for Ctrl-C, and a held program does not read the key.
  test('Ctrl-C ends a held agent, also one that has switched the terminal to raw', async () => {
    const supervised = new Supervised(fleet)
    const agent = await start(supervised, `stty raw -echo; ${loop}`)
    await agent.shows('begun')
    await fleet.kill('test')
    await agent.shows('held within')
    await eventually(() => {
      agent.type('\x03')
      expect(supervised.processes()).toEqual([])
    })
    await fleet.resume()
  })

  test('Ctrl-Z stops all processes of the agent, and SIGCONT continues them', async () => {
    const supervised = new Supervised(fleet)
    const agent = await start(supervised, `trap '' TSTP; ${loop}`)
    await agent.shows('begun')
    agent.type('\x1a')
    const supervisor = await eventually(() => {
      const found = supervised.processes('all').find((pid) => stateOf(pid) === 'T' && isSupervisor(pid))
      expect(found).toBeDefined()
      return found!
    })
    await supervised.held(1)
    process.kill(supervisor, 'SIGCONT')
    await supervised.running(1)
  })
})
