import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runCommand } from './command.ts'
import { createKey, unique } from './fleet.ts'
import { type Service, startService, until } from './service.ts'

let service: Service
let key: string
const folder = mkdtempSync(join(tmpdir(), 'wardline-lists-'))
beforeAll(async () => {
  service = await startService()
  key = await createKey(service, { scope: 'operator', name: 'lists' })
})
afterAll(async () => {
  await service?.stop()
  rmSync(folder, { recursive: true, force: true })
})

const lists = (...args: string[]) =>
  runCommand(['lists', ...args], { WARDLINE_URL: service.baseUrl, WARDLINE_KEY: key })
function write(name: string, text: string): string {
  writeFileSync(join(folder, name), text)
  return join(folder, name)
}
const report = (instance_id: string, host: string) =>
  service.call('POST', '/api/events', {
    body: {
      severity: 'info',
      source: 'test',
      event_type: 'tool_call',
      description: 'A call',
      instance_id,
      metadata: { hosts: [host] },
    },
  })

test('the commands create, fill, show and delete a list', async () => {
  const name = unique('hosts').slice(0, 40)
  expect(await lists('create', name, '--description', 'Ours')).toMatchObject({ code: 0, stderr: '' })
  expect(await lists('create', name)).toMatchObject({ code: 2, stderr: expect.stringContaining('send its version, 1') })
  expect((await lists('add', name, 'a.example', 'b.example', 'a.example')).stdout).toBe(
    `List ${name}: 2 entries, 2 added, 0 removed (version 2).\n`,
  )
  expect((await lists('remove', name, 'a.example', 'x.example')).stdout).toContain('1 entry, 0 added, 1 removed')
  const file = write('hosts.txt', '# Ours\nb.example\n  c.example \n\n')
  expect((await lists('import', name, file)).stdout).toContain('2 entries, 1 added, 0 removed (version 4)')
  const shown = await lists('show', name)
  expect(shown.stdout).toBe('b.example\nc.example\n')
  expect(shown.stderr).toContain(`${name}, version 4, 2 entries: Ours`)
  expect((await lists('ls')).stdout).toMatch(new RegExp(`${name} +2 +0 +4 .* Ours`))
  expect(JSON.parse((await lists('show', name, '--json')).stdout)).toMatchObject({
    entries: ['b.example', 'c.example'],
  })
  expect(await lists('delete', name)).toMatchObject({ code: 0, stdout: `List ${name} is deleted.\n` })
  expect(await lists('show', name)).toMatchObject({
    code: 2,
    stderr: `There is no list ${name}: \`wardline lists create ${name}\` creates it.\n`,
  })
  expect(await lists('show', 'Not A Name')).toMatchObject({ code: 64 })
  expect((await lists('import', name, file)).stdout).toContain('2 entries, 2 added, 0 removed (version 1)')
  expect(await lists('delete', name)).toMatchObject({ code: 0 })
})

test('a change of a list while events flow changes what fires, from the event after its answer on', async () => {
  const [name, agent] = [unique('flow').slice(0, 40), unique('flow')]
  await lists('import', name, write('flow.txt', 'corp.example\n'))
  const { body } = await service.call<{ id: string; error?: string }>('POST', '/api/rules', {
    body: {
      title: 'Host that is not in the list',
      severity: 'warning',
      detection: {
        call: { event_type: 'tool_call', instance_id: agent, 'metadata.hosts|exists': true },
        known: { 'metadata.hosts|domain|expand': `%${name}%` },
        condition: 'call and not known',
      },
    },
  })
  expect(body.error).toBeUndefined()
  const firings = async () => {
    const path = `/api/rules/${body.id}/firings?limit=200`
    return (await service.call<{ firings: unknown[] }>('GET', path)).body.firings.length
  }
  /** Reports without a pause until it is ended; returns how many events. */
  function flow(host: string) {
    let isOver = false
    const sending = (async () => {
      let count = 0
      for (; !isOver; count += 1) expect((await report(agent, host)).status).toBe(201)
      return count
    })()
    return () => {
      isOver = true
      return sending
    }
  }
  const harmless = flow('git.corp.example')
  for (let round = 0; round < 5; round += 1) {
    const before = await firings()
    await report(agent, 'files.example')
    await until('the firing', firings, (count) => count === before + 1)
    expect((await lists('add', name, 'files.example')).code).toBe(0)
    await report(agent, 'files.example')
    // Fires after the event above was judged.
    await report(agent, 'other.example')
    await until('the next firing', firings, (count) => count > before + 1)
    expect(await firings()).toBe(before + 2)
    expect((await lists('remove', name, 'files.example')).code).toBe(0)
  }
  expect(await harmless()).toBeGreaterThan(10)
  expect(await firings()).toBe(10)
  const refused = await lists('delete', name)
  expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining('Host that is not in the list') })
  const rule = await runCommand(['rules', 'show', body.id], { WARDLINE_URL: service.baseUrl, WARDLINE_KEY: key })
  expect(rule.stderr).toContain(`uses the list ${name}: wardline lists show ${name}\n`)
  const used = await lists('show', name)
  expect(used.stderr).toContain(`used by Host that is not in the list (${body.id})`)
})

test('a backtest runs with other entries than those stored', async () => {
  const [name, agent] = [unique('tried').slice(0, 40), unique('tried')]
  await report(agent, 'a.example')
  await report(agent, 'b.example')
  const rule = write(
    'rule.yml',
    `title: x\nseverity: info\ndetection:\n  a: { instance_id: ${agent}, metadata.hosts|expand: '%${name}%' }\n  condition: a\n`,
  )
  const run = (...args: string[]) =>
    runCommand(['rules', 'backtest', rule, ...args], { WARDLINE_URL: service.baseUrl, WARDLINE_KEY: key })
  expect((await run()).stderr).toContain(`There is no list ${name}`)
  const tried = await run('--list', `${name}=${write('tried.txt', 'a.example')}`)
  expect(tried.stdout).toContain('would have fired 1 time')
})
