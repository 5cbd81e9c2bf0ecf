import { mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { PolicyList } from '@wardline/contract'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { openRuleService, type RuleService } from '../../testing/rule-service.ts'

let folder: string
let on: RuleService
let writes = 0
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'wardline-policies-'))
  on = await openRuleService({ env: { WARDLINE_POLICY_DIR: folder } })
  await on.runRules()
})
afterEach(async () => {
  await on[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true, force: true })
})

function write(name: string, text: string): void {
  const file = join(folder, name)
  writeFileSync(file, text)
  // Without this, two writes of the same length within the resolution of file times would look the same.
  writes += 1
  utimesSync(file, writes, writes)
}
async function read(): Promise<PolicyList> {
  const { policyFiles, ruleRunner } = on.services
  await policyFiles.run(ruleRunner.isHolder)
  return (await on.call<PolicyList>('GET', '/api/policies')).body
}

const mail = (more = '') => `title: Mail\nrules: [{ title: Ask, decision: ask, match: { tool: send_email } }]\n${more}`

it('are stored, changed and removed with their files, and raise the version only when something changed', async () => {
  write('mail.yml', mail())
  write('notes.txt', 'no policy')
  const first = await read()
  const [policy] = first.policies
  expect(policy).toMatchObject({ title: 'Mail', file: 'mail.yml', version: 1, mode: 'observe', changed_by: null })
  expect((await read()).set_version).toBe(first.set_version)
  write('mail.yml', mail('mode: enforce\n'))
  const second = await read()
  expect(second.policies).toMatchObject([{ id: policy!.id, version: 2, mode: 'enforce' }])
  expect(second.set_version).toBeGreaterThan(first.set_version)
  rmSync(join(folder, 'mail.yml'))
  const third = await read()
  expect(third.policies).toEqual([])
  expect(third.set_version).toBeGreaterThan(second.set_version)
  const { body } = await on.call<{ entries: object[] }>('GET', `/api/audit?target=${policy!.id}`)
  expect(body.entries).toMatchObject([
    { action: 'policy.create', actor: 'system' },
    { action: 'policy.change' },
    { action: 'policy.delete' },
  ])
})

it('cannot be changed over the interface', async () => {
  write('mail.yml', mail())
  const [policy] = (await read()).policies
  const url = `/api/policies/${policy!.id}`
  for (const [method, path, body] of [
    ['PUT', url, { title: 'Mail' }],
    ['PUT', `${url}/mode`, { mode: 'enforce' }],
    ['DELETE', url, undefined],
  ] as const) {
    const { status, body: answer } = await on.call<{ error: string }>(method, path, body === undefined ? {} : { body })
    expect([status, answer.error]).toEqual([409, 'The policy is read from the file mail.yml: change it there.'])
  }
})

it('stay as they were while their file is invalid, and an event names the place', async () => {
  write('mail.yml', mail())
  const { set_version } = await read()
  write('mail.yml', mail('flow: sometimes\n'))
  write('volumes.yml', 'title: Volumes\nrules: [{ title: Never, decision: deny, cases: { match: [{}] } }]\n')
  const { policies, file_faults, set_version: after } = await read()
  await read()
  expect(policies).toMatchObject([{ title: 'Mail', version: 1 }])
  expect(after).toBe(set_version)
  expect(file_faults).toMatchObject([
    { file: 'mail.yml', error: 'Line 3, column 1: flow must be off, default or strict.' },
    { file: 'volumes.yml', error: expect.stringMatching(/^Line 2, column \d+: rules\[0\]\.cases\.match\[0\]/) },
  ])
  expect(await on.eventsOf('policy_file_invalid')).toHaveLength(2)
  write('mail.yml', mail('flow: strict\n'))
  expect((await read()).policies).toMatchObject([{ title: 'Mail', version: 2, flow: 'strict' }])
})

it('are not deleted when the folder cannot be read', async () => {
  write('mail.yml', mail())
  await read()
  rmSync(folder, { recursive: true })
  const { policies, file_faults } = await read()
  expect(policies).toHaveLength(1)
  expect(file_faults).toMatchObject([{ error: 'WARDLINE_POLICY_DIR cannot be read (ENOENT).' }])
})

it('that are too large or no regular file are reported', async () => {
  write('large.yml', `title: Large\n# ${'x'.repeat(70_000)}`)
  expect((await read()).file_faults).toEqual([{ file: 'large.yml', error: 'The file has more than 64 KiB.' }])
})
