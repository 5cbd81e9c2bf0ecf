import { existsSync, readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { AgentHome } from '../../testing/agent-command.ts'
import { TestFleet } from '../../testing/service.ts'
import { canHideCgroup, eventually, isAlive, isHeld, letGo, Supervised, stateOf } from '../../testing/supervised.ts'

// A real service, and real processes that do not cooperate. "Held" is read from /proc.
const slow = { timeout: 400_000 }

let fleet: TestFleet
beforeAll(async () => {
  fleet = await TestFleet.open()
}, 60_000)
afterAll(() => fleet[Symbol.asyncDispose]())

const acknowledged = () =>
  eventually(async () => {
    const { control } = await fleet.instance()
    expect(control.confirmed).toBe(true)
  })

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
    await fleet.kill('test')
    await acknowledged()
    // Nothing is waited for: what is acknowledged stands.
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
