import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { AgentHome } from '../../testing/agent-command.ts'
import { TestFleet } from '../../testing/service.ts'
import {
  canHideCgroup,
  cgroupOf,
  eventually,
  hasProgram,
  isAlive,
  isHeld,
  leaveCgroup,
  letGo,
  Supervised,
  stateOf,
} from '../../testing/supervised.ts'

// A real service, and real processes that do not cooperate. "Held" is read from /proc.
const slow = { timeout: 400_000 }

let fleet: TestFleet
beforeAll(async () => {
  fleet = await TestFleet.open()
}, 60_000)
// An agent that a failed test left suspended would not start in any later one.
afterEach(async () => {
  if ((await fleet.instance().catch(() => undefined))?.status === 'suspended') await fleet.resume()
})
afterAll(() => fleet[Symbol.asyncDispose]())

const acknowledged = () =>
  eventually(async () => {
    const { control } = await fleet.instance()
    expect(control.confirmed).toBe(true)
  })

/** Resolves once the evidence says that nothing is left. */
const held = () => eventually(() => expect(fleet.wire.sent).toMatch(/"supervisor":\{"action":"freeze",.*?"left":0,/))

/** Each line of the file is a step of the agent. */
const stepsIn = (home: AgentHome, name = 'steps') => (existsSync(home.path(name)) ? home.read(name).length : 0)
const counts = (name = 'steps') => `while :; do printf x >> "$HOME/${name}"; sleep 0.02; done`

const programs: Record<string, { script: string; atLeast: number }> = {
  'a loop that starts processes': { script: counts(), atLeast: 1 },
  'a bomb of 200 children': {
    script: `i=0; while [ $i -lt 200 ]; do sh -c 'while :; do sleep 1; done' & i=$((i+1)); done; ${counts()}`,
    atLeast: 200,
  },
  'a double fork into a new session': {
    script: `(setsid sh -c '${counts()}' &) ; sleep 600`,
    atLeast: 2,
  },
  'a child without an environment': {
    script: `env -i sh -c 'f=$1; while :; do printf x >> "$f"; sleep 0.02; done' sh "$HOME/steps" & wait`,
    atLeast: 2,
  },
  'a child that left its group': {
    script: `setsid -f sh -c '${counts()}'; sleep 600`,
    atLeast: 2,
  },
  // None of them lives as long as a look at all processes takes.
  'processes that each start the next one in a new session and end': {
    script: `echo 'printf x >> "$HOME/steps"; [ -e "$HOME/link" ] && setsid sh "$HOME/link" &' > "$HOME/link"
      for n in 1 2 3; do setsid sh "$HOME/link" & done; sleep 600`,
    atLeast: 2,
  },
  'programs that ignore signals': {
    script: `trap '' TERM HUP INT QUIT TSTP CONT; ${counts()}`,
    atLeast: 1,
  },
}

describe.each([false, ...(canHideCgroup ? [true] : [])])('where the cgroup is hidden: %s', slow, (hidesCgroup) => {
  test.each(Object.entries(programs))('a kill holds %s until the resume', async (_name, { script, atLeast }) => {
    const supervised = new Supervised(fleet)
    const { home } = supervised
    const { child } = supervised.start(['sh', '-c', script], { hidesCgroup })
    await eventually(() => expect(stepsIn(home)).toBeGreaterThan(2))
    await supervised.running(atLeast)
    fleet.wire.sent = ''
    await fleet.kill('test')
    await held()
    // Nothing is waited for: what is reported as held stands.
    const running = supervised.processes().filter((pid) => !isHeld(pid))
    expect(running.map((pid) => [pid, stateOf(pid), readFileSync(`/proc/${pid}/cmdline`, 'utf8')])).toEqual([])
    expect(supervised.processes().length).toBeGreaterThanOrEqual(atLeast)
    const steps = stepsIn(home)
    await fleet.letTimePass()
    expect(stepsIn(home)).toBe(steps)
    await fleet.resume()
    await eventually(() => expect(stepsIn(home)).toBeGreaterThan(steps))
    child.kill('SIGKILL')
    await supervised.gone()
  })

  test('a process stays known after its parent, session and environment are gone', async () => {
    const supervised = new Supervised(fleet)
    const { home } = supervised
    const child = `setsid env -i sh -c 'while :; do printf x >> "$1"; sleep 0.02; done' sh "$HOME/steps" &`
    home.write('parent.sh', `${child} until [ -e "$HOME/go" ]; do sleep 0.05; done`)
    const started = supervised.start(['sh', '-c', `sh ${home.path('parent.sh')}; ${counts('others')}`], { hidesCgroup })
    // It is known from the next sweep on, which is due each second.
    await eventually(() => expect(stepsIn(home)).toBeGreaterThan(100))
    home.write('go', '')
    await eventually(() => expect(stepsIn(home, 'others')).toBeGreaterThan(2))
    await fleet.kill('test')
    await supervised.held(2)
    await fleet.resume()
    await supervised.running(2)
    started.child.kill('SIGKILL')
    await supervised.gone()
  })

  test('a process that was stopped before stays stopped after the resume', async () => {
    const supervised = new Supervised(fleet)
    const { home } = supervised
    const { child } = supervised.start(
      ['sh', '-c', `sh -c 'echo $$ > "$HOME/pid"; kill -STOP $$; exit' & ${counts()}`],
      {
        hidesCgroup,
      },
    )
    await eventually(() => expect(existsSync(home.path('pid'))).toBe(true))
    const pid = Number(home.read('pid'))
    await eventually(() => expect(stateOf(pid)).toBe('T'))
    await fleet.kill('test')
    await acknowledged()
    await supervised.held(2)
    await fleet.resume()
    await acknowledged()
    const steps = stepsIn(home)
    await eventually(() => expect(stepsIn(home)).toBeGreaterThan(steps))
    expect(stateOf(pid)).toBe('T')
    child.kill('SIGKILL')
    await supervised.gone()
    expect(isAlive(pid)).toBe(false)
  })

  // The watcher knows what only an earlier sweep has seen.
  test('such a process ends with a supervisor that is killed', async () => {
    const supervised = new Supervised(fleet)
    const { home } = supervised
    const child = `setsid env -i sh -c 'while :; do printf x >> "$1"; sleep 0.02; done' sh "$HOME/steps" &`
    home.write('parent.sh', `${child} until [ -e "$HOME/go" ]; do sleep 0.05; done`)
    const started = supervised.start(['sh', '-c', `sh ${home.path('parent.sh')}; ${counts('others')}`], { hidesCgroup })
    await eventually(() => expect(stepsIn(home)).toBeGreaterThan(100))
    home.write('go', '')
    await eventually(() => expect(stepsIn(home, 'others')).toBeGreaterThan(2))
    started.child.kill('SIGKILL')
    await supervised.gone()
  })

  // Another process of the same user could undo a stop.
  test('what others continue is reported and stopped again', async () => {
    const supervised = new Supervised(fleet)
    const { home } = supervised
    supervised.start(['sh', '-c', counts()], { hidesCgroup })
    await eventually(() => expect(stepsIn(home)).toBeGreaterThan(2))
    await fleet.kill('test')
    await acknowledged()
    fleet.wire.sent = ''
    for (const pid of supervised.processes()) letGo(pid)
    await eventually(() => expect(fleet.wire.sent).toMatch(/"left":[1-9].*"left":0/s))
    await supervised.held(1)
    await fleet.resume()
    await supervised.running(1)
  })
})

test('a process that has left the cgroup is held as well', slow, async ({ skip }) => {
  const supervised = new Supervised(fleet)
  const { home } = supervised
  supervised.start(['sh', '-c', `sh -c 'echo $$ > "$HOME/pid"; ${counts()}' & ${counts('others')}`])
  await eventually(() => expect(stepsIn(home)).toBeGreaterThan(2))
  const pid = Number(home.read('pid'))
  if (!leaveCgroup(pid)) return skip('there is no cgroup to leave')
  fleet.wire.sent = ''
  await fleet.kill('test')
  await held()
  expect(supervised.processes().filter((each) => !isHeld(each))).toEqual([])
  expect(stateOf(pid)).toBe('T')
  await fleet.resume()
  await supervised.running(2)
})

test(
  'the next supervisor removes the empty cgroup of one that was killed with its watcher, and no other',
  slow,
  async ({ skip }) => {
    const supervised = new Supervised(fleet)
    const { home } = supervised
    const { child } = supervised.start(['sh', '-c', counts()])
    await eventually(() => expect(stepsIn(home)).toBeGreaterThan(2))
    const left = cgroupOf(supervised.processes()[0]!)
    if (left === undefined) return skip('no cgroup can be created')
    for (const pid of [supervised.watcher!, child.pid!, ...supervised.processes()]) {
      // The steps end by themselves at any time.
      if (isAlive(pid)) process.kill(pid, 'SIGKILL')
    }
    await eventually(() => expect(supervised.processes('all')).toEqual([]))
    // No process has such a pid.
    const inUse = join(dirname(left), 'wardline-4194999-00000000')
    const others = [join(inUse, 'empty'), inUse, join(dirname(left), `wardline-${process.pid}-00000000`), `${left}x`]
    for (const folder of others) mkdirSync(folder, { recursive: true })
    const inside = spawn('sleep', ['600'])
    writeFileSync(join(inUse, 'cgroup.procs'), String(inside.pid))
    onTestFinished(async () => {
      inside.kill('SIGKILL')
      for (const folder of others) await eventually(() => rmdirSync(folder))
    })
    const next = supervised.start(['sh', '-c', counts('next')])
    await eventually(() => expect(stepsIn(home, 'next')).toBeGreaterThan(2))
    expect(existsSync(left)).toBe(false)
    expect(others.map((folder) => existsSync(folder))).toEqual([true, true, true, true])
    next.child.kill('SIGKILL')
    await supervised.gone()
  },
)

// A supervisor without this right stands for one that has fewer rights than a process that its agent has started.
const withoutKill = ['setpriv', '--bounding-set=-kill', '--inh-caps=-kill']
test.skipIf(!canHideCgroup || !hasProgram('setpriv'))(
  'a process that cannot be stopped is reported as left, and by a drill',
  slow,
  async () => {
    const supervised = new Supervised(fleet)
    const { home } = supervised
    const started = supervised.start(['sh', '-c', `setpriv --reuid=65534 --clear-groups sleep 600 & ${counts()}`], {
      hidesCgroup: true,
      starter: withoutKill,
    })
    await eventually(() => expect(stepsIn(home)).toBeGreaterThan(2))
    await supervised.running(2)
    fleet.wire.sent = ''
    await fleet.kill('test')
    await acknowledged()
    expect(fleet.wire.sent).toMatch(/"action":"freeze","processes":[2-9],"left":1,/)
    await started.says('of which 1 cannot be stopped')
    expect(supervised.processes().filter((pid) => !isHeld(pid))).toHaveLength(1)
    await eventually(async () => expect(await fleet.drill()).toMatchObject({ answered: 1 }))
    expect(fleet.wire.sent).toMatch(/"supervisor":\{"processes":[2-9],"unreachable":1\}/)
    await fleet.resume()
    started.child.kill('SIGKILL')
  },
)

describe('where there is no /proc', slow, () => {
  test('a kill holds children, groups and a double fork that was seen before, and they end with their supervisor', async () => {
    const supervised = new Supervised(fleet)
    const { home } = supervised
    home.write('ps', '#!/bin/sh\necho used >> "$(dirname "$0")/ps-calls"; PATH=/usr/bin:/bin exec ps "$@"', 0o755)
    home.write('orphan.sh', counts())
    home.write('parent.sh', `setsid sh "$HOME/orphan.sh" & until [ -e "$HOME/go" ]; do sleep 0.05; done`)
    const { child } = supervised.start(
      [
        'sh',
        '-c',
        `sleep 600 & setsid sh -c 'sleep 600 & sleep 600 & wait' & sh ${home.path('parent.sh')} & ${counts('others')}`,
      ],
      { hidesProc: true, env: { PATH: `${home.folder}:${process.env.PATH}` } },
    )
    await eventually(() => expect(stepsIn(home)).toBeGreaterThan(100))
    home.write('go', '')
    fleet.wire.sent = ''
    await fleet.kill('test')
    await held()
    expect(home.read('ps-calls')).toContain('used')
    // The supervisor goes on to look.
    const isPs = (pid: number) => readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes('pid=,ppid=')
    const members = supervised.processes().filter((pid) => isAlive(pid) && !isPs(pid))
    expect(members.length).toBeGreaterThanOrEqual(6)
    expect(members.filter((pid) => !isHeld(pid))).toEqual([])
    const steps = [stepsIn(home), stepsIn(home, 'others')]
    await fleet.letTimePass()
    expect([stepsIn(home), stepsIn(home, 'others')]).toEqual(steps)
    await fleet.resume()
    await supervised.running(6)
    child.kill('SIGKILL')
    await supervised.gone()
  })
})
