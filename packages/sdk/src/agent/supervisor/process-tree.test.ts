import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { describe, expect, onTestFinished, test } from 'vitest'
import { noPython, python } from '../../../../../test-servers/python.ts'
import { environmentOf, eventually, isAlive, parentOf, stateOf, threadStates } from '../../testing/supervised.ts'
import { openProcessTable, type ProcessTable } from './process-table.ts'
import { ProcessTree, tokenName } from './process-tree.ts'
import { TreeHolder } from './tree-holder.ts'

// Real processes, and a shell that stands for their supervisor.
const token = 'b'.repeat(32)

/** Starts a shell. Its script prints a line with a pid for each process that it is about. */
async function startShell(script: string, lines: number, env: Record<string, string> = {}) {
  const child: ChildProcess = spawn('sh', ['-c', script], {
    env: { PATH: process.env.PATH!, ...env },
    detached: true,
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const pids: number[] = []
  onTestFinished(() => {
    for (const pid of [child.pid!, ...pids]) if (isAlive(pid)) process.kill(pid, 'SIGKILL')
  })
  const reader = createInterface(child.stdout!)
  reader.on('line', (line) => pids.push(Number(line)))
  await eventually(() => expect(pids.length).toBeGreaterThanOrEqual(lines))
  return { pid: child.pid!, pids, go: () => child.stdin!.write('go\n') }
}

function treeOf(supervisor: number, table: ProcessTable) {
  const origin = table.list().processes.find(({ pid }) => pid === supervisor)!
  const tree = new ProcessTree({ table, token, cgroup: undefined, origin })
  return { tree, holder: new TreeHolder(tree, table, undefined) }
}
const always = () => true

describe.each([
  ['/proc', openProcessTable(false)],
  ['ps', openProcessTable(true)],
])('by %s', (_name, table) => {
  test('children that have no environment are held and continued, and no other process of their session is', async () => {
    const children = 'env -i sleep 600 & echo $!; sh -c "echo \\$\\$; sleep 600 & echo \\$!; wait" & wait'
    const { pids } = await startShell(`sleep 600 & echo $!; sh -c 'echo $$; ${children}'`, 5)
    const [other, supervisor, ...members] = pids
    const { holder } = treeOf(supervisor!, table)
    expect(await holder.hold(always)).toEqual({ processes: 3, left: 0 })
    expect(members.map(stateOf)).toEqual(['T', 'T', 'T'])
    expect([other!, supervisor!].map(stateOf)).not.toContain('T')
    holder.release()
    expect(members.map(stateOf)).not.toContain('T')
    expect((await holder.kill()).left).toBe(0)
    expect([...members, other!].map(isAlive)).toEqual([false, false, false, true])
  })

  test('a process that was seen once is held after its parent has ended', async () => {
    const { pid, pids, go } = await startShell('sh -c "env -i sleep 600 & echo \\$!; read go"; read end', 1)
    const { tree, holder } = treeOf(pid, table)
    const [orphan] = pids
    expect(tree.sweep().map((each) => each.pid)).toContain(orphan)
    const parent = parentOf(orphan!)
    go()
    await eventually(() => expect(parentOf(orphan!)).not.toBe(parent))
    expect(await holder.hold(always)).toEqual({ processes: 1, left: 0 })
    expect(stateOf(orphan!)).toBe('T')
    await holder.kill()
  })

  test('a process of a known group is held, also one that was never seen with a parent', async ({ skip }) => {
    if (python === undefined) return skip(noPython)
    const leader = 'echo $$; read go; env -i sleep 600 & echo $!'
    const inGroup = `'${python}' -c 'import os, sys; os.setpgid(0, 0); os.execvp("sh", sys.argv[1:])' sh -c "$LEADER"`
    const { pid, pids, go } = await startShell(`exec 3<&0; ${inGroup} <&3 & exec sleep 600`, 1, { LEADER: leader })
    const { tree, holder } = treeOf(pid, table)
    tree.sweep()
    go()
    await eventually(() => expect(pids).toHaveLength(2))
    const [parent, orphan] = pids
    await eventually(() => expect(isAlive(parent!)).toBe(false))
    await eventually(() => expect(parentOf(orphan!)).not.toBe(parent))
    expect(await holder.hold(always)).toEqual({ processes: 1, left: 0 })
    expect(stateOf(orphan!)).toBe('T')
    await holder.kill()
  })

  test('another process with the pid of a known one does not belong to the tree', async () => {
    const { pid } = await startShell('echo $$; exec sleep 600', 1)
    const { pid: supervisor } = await startShell('echo $$; exec sleep 600', 1)
    const { tree, holder } = treeOf(supervisor, table)
    tree.restore({ known: [[pid, 'earlier']], groups: [], sessions: [] })
    expect(await holder.hold(always)).toEqual({ processes: 0, left: 0 })
    expect(stateOf(pid)).not.toBe('T')
  })
})

test('another process that got the pid after the list was read is sent no signal', async () => {
  const { pid, pids } = await startShell('while :; do echo $$; sleep 0.02; done', 1)
  const table = openProcessTable(false)
  const ended = { ...table.list().processes.find((each) => each.pid === pid)!, started: '1' }
  const stale: ProcessTable = { ...table, list: () => ({ processes: [ended], vanished: [] }) }
  const tree = new ProcessTree({
    table: stale,
    token,
    cgroup: undefined,
    origin: { pid: ended.parent, group: 0, session: 0 },
  })
  const holder = new TreeHolder(tree, stale, undefined)
  expect(holder.keep().processes).toBe(1)
  const steps = pids.length
  await eventually(() => expect(pids.length).toBeGreaterThan(steps + 2))
})

test('a tree is not reported as held while processes end before it is known whose they are', async () => {
  const { pid } = await startShell('sleep 600 & echo $$; wait', 1)
  const table = openProcessTable(false)
  let vanished = 0
  const busy: ProcessTable = { ...table, list: (onRead) => ({ ...table.list(onRead), vanished: [--vanished] }) }
  const { holder } = treeOf(pid, busy)
  expect(await holder.hold(always)).toEqual({ processes: 1, left: 1 })
  await treeOf(pid, table).holder.kill()
})

test('a process whose environment has the token is held without any other sign', async () => {
  const { pid: supervisor } = await startShell('echo $$; exec sleep 600', 1)
  const { pids } = await startShell(`${tokenName}=${token} sleep 600 & echo $!; wait`, 1)
  await eventually(() => expect(environmentOf(pids[0]!)).toContain(`${tokenName}=${token}`))
  const { holder } = treeOf(supervisor, openProcessTable(false))
  expect(await holder.hold(always)).toEqual({ processes: 1, left: 0 })
  expect(pids.map(stateOf)).toEqual(['T'])
  await holder.kill()
})

// Its entry in /proc says that it has ended, while its other threads go on.
test('a process whose first thread has ended is held and ended', async ({ skip }) => {
  if (python === undefined) return skip(noPython)
  const endsFirstThread = `import ctypes, platform, threading, time
threading.Thread(target=lambda: [time.sleep(0.01) for _ in iter(int, 1)]).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[platform.machine()], 0)`
  const { pid, pids } = await startShell(`'${python}' -c '${endsFirstThread}' & echo $!; wait`, 1)
  const [program] = pids
  await eventually(() => expect(stateOf(program!)).toBe('Z'))
  const { holder } = treeOf(pid, openProcessTable(false))
  expect(await holder.hold(always)).toEqual({ processes: 1, left: 0 })
  expect(threadStates(program!)).toEqual(['T', 'Z'])
  expect(await holder.kill()).toEqual({ processes: 1, left: 0 })
  await eventually(() => expect(threadStates(program!)).not.toContain('T'))
})
