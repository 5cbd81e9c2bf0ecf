import { execFileSync } from 'node:child_process'
import { mkdtempSync, renameSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { RuleList } from '@wardline/contract'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { openRuleService, type RuleService, shellRule, toolCall } from '../../testing/rule-service.ts'

let folder: string
let on: RuleService
let writes = 0
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'wardline-rules-'))
  on = await openRuleService({ env: { WARDLINE_RULES_DIR: folder } })
  await on.runRules()
})
afterEach(async () => {
  await on[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true, force: true })
})

function write(name: string, rule: object | string): void {
  const file = join(folder, name)
  writeFileSync(file, typeof rule === 'string' ? rule : JSON.stringify(rule))
  // Without this, two writes of the same length within the resolution of file times would look the same.
  writes += 1
  utimesSync(file, writes, writes)
}
async function read(): Promise<RuleList> {
  const { ruleFiles, ruleRunner } = on.services
  await ruleFiles.run(ruleRunner.isHolder)
  await on.runRules()
  return (await on.call<RuleList>('GET', '/api/rules')).body
}

it('run, change and are removed with their files', async () => {
  write('shell.yml', shellRule())
  write('notes.txt', 'no rule')
  const [rule] = (await read()).rules
  expect(rule).toMatchObject({ title: 'Shell', file: 'shell.yml', version: 1, mode: 'observe', changed_by: null })
  await on.report(toolCall('shell-exec'))
  await on.runRules()
  expect(await on.firings(rule!.id)).toHaveLength(1)
  write('shell.yml', shellRule({ title: 'Shell of any kind', mode: 'alert' }))
  expect((await read()).rules).toMatchObject([{ id: rule!.id, title: 'Shell of any kind', version: 2, mode: 'alert' }])
  rmSync(join(folder, 'shell.yml'))
  expect((await read()).rules).toEqual([])
})

it('cannot be changed over the API', async () => {
  write('shell.yml', shellRule())
  const [rule] = (await read()).rules
  const url = `/api/rules/${rule!.id}`
  for (const [method, path, body] of [
    ['PUT', url, shellRule()],
    ['DELETE', url, undefined],
    ['POST', `${url}/mode`, { mode: 'enforce' }],
  ] as const) {
    const answer = await on.call<{ error: string }>(method, path, body === undefined ? {} : { body })
    expect([answer.status, answer.body.error]).toEqual([
      409,
      'The rule is read from the file shell.yml: change it there.',
    ])
  }
})

it('that are invalid are reported once, and the stored version of the rule and the other rules stay', async () => {
  write('shell.yml', shellRule())
  write('other.yml', shellRule({ title: 'Other' }))
  await read()
  write('shell.yml', shellRule({ severity: 'loud' }))
  write('new.yml', 'title: [')
  const list = await read()
  await read()
  expect(list.rules.map(({ title }) => title)).toEqual(['Other', 'Shell'])
  expect(list.file_faults).toMatchObject([
    { file: 'new.yml', error: expect.stringMatching(/^Line 1, column \d+: /) },
    { file: 'shell.yml', error: expect.stringContaining('severity') },
  ])
  expect(await on.eventsOf('rule_file_invalid')).toHaveLength(2)
  write('shell.yml', shellRule())
  rmSync(join(folder, 'new.yml'))
  expect((await read()).file_faults).toEqual([])
})

it('that are no regular files, dangling links or too long are reported one by one, and other files are read', async () => {
  write('shell.yml', shellRule())
  write('long.yml', `# ${'x'.repeat(64 * 1024)}`)
  execFileSync('mkfifo', [join(folder, 'fifo.yml')])
  symlinkSync('/dev/zero', join(folder, 'zero.yml'))
  symlinkSync('nowhere.yml', join(folder, 'dangling.yml'))
  symlinkSync('shell.yml', join(folder, 'link.json'))
  const list = await read()
  expect(list.rules.map(({ file }) => file).sort()).toEqual(['link.json', 'shell.yml'])
  expect(list.file_faults).toEqual([
    { file: 'dangling.yml', error: 'The file cannot be read (ENOENT).' },
    { file: 'fifo.yml', error: 'It is not a regular file.' },
    { file: 'long.yml', error: 'The file has more than 64 KiB.' },
    { file: 'zero.yml', error: 'It is not a regular file.' },
  ])
})

it('stay while the folder is missing', async () => {
  write('shell.yml', shellRule())
  await read()
  renameSync(folder, `${folder}-away`)
  const list = await read()
  renameSync(`${folder}-away`, folder)
  expect(list.rules).toHaveLength(1)
  expect(list.file_faults).toMatchObject([{ error: 'WARDLINE_RULES_DIR cannot be read (ENOENT).' }])
  expect((await read()).file_faults).toEqual([])
})

it('are refused beyond the cost of all rules, and stored once there is room', async () => {
  const costly = (index: number) => {
    const values = Array.from({ length: 490 }, (_, value) => `${index}-${value}`)
    return shellRule({ detection: { a: { 'metadata.a|contains': values }, condition: 'a' }, tests: undefined })
  }
  const ids = []
  for (let index = 0; index < 6; index += 1) ids.push(await on.create(costly(index)))
  write('shell.yml', shellRule())
  write('costly.yml', costly(6))
  const list = await read()
  expect(list.rules.map(({ file }) => file).filter((file) => file !== null)).toEqual(['shell.yml'])
  const error = expect.stringMatching(
    /^The rule costs an event of 16 KiB up to 8\.\d ms, and the other rules 48\.\d ms/,
  )
  expect(list.file_faults).toEqual([{ file: 'costly.yml', error }])
  await read()
  expect(await on.eventsOf('rule_file_invalid')).toHaveLength(1)
  expect((await on.call('DELETE', `/api/rules/${ids[0]}`)).status).toBe(200)
  expect((await read()).file_faults).toEqual([])
  expect((await read()).rules).toHaveLength(7)
  // A change of the folder may need the room of a file that is removed with it.
  rmSync(join(folder, 'costly.yml'))
  write('another.yml', costly(7))
  expect((await read()).file_faults).toEqual([])
  expect(await on.eventsOf('rule_file_invalid')).toHaveLength(1)
})

it('are refused with the id of a rule that was stored over the API', async () => {
  const id = await on.create(shellRule())
  write('shell.yml', shellRule({ id }))
  expect((await read()).file_faults).toMatchObject([{ error: expect.stringContaining('stored over the interface') }])
})

it('run once the list that they name is created', async () => {
  const listed = { a: { 'tool|expand': '%shells%' }, condition: 'a' }
  write('listed.yml', { title: 'Listed', severity: 'info', detection: listed })
  const before = await read()
  expect(before.rules).toEqual([])
  expect(before.file_faults).toMatchObject([{ file: 'listed.yml', error: expect.stringContaining('no list shells') }])
  await on.call('PUT', '/api/lists/shells', { body: { entries: ['bash'], version: 0 } })
  const after = await read()
  expect(after.rules).toMatchObject([{ title: 'Listed' }])
  expect(after.file_faults).toEqual([])
  await on.call('POST', '/api/lists/shells/entries', { body: { add: ['shell-exec'] } })
  expect((await read()).rules).toMatchObject([{ title: 'Listed', version: 1 }])
  await on.report(toolCall('shell-exec'))
  await on.runRules()
  expect(await on.firings(after.rules[0]!.id)).toHaveLength(1)
})
