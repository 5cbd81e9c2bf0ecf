import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { PolicyLinted, PolicyList, PolicyView } from '@wardline/contract'
import { readPolicy } from '@wardline/policy'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { openRuleService, type RuleService } from '../../testing/rule-service.ts'

let outside: string
let folder: string
let on: RuleService
let writes = 0
beforeEach(async () => {
  outside = mkdtempSync(join(tmpdir(), 'wardline-labels-'))
  folder = join(outside, 'policies')
  mkdirSync(folder)
  on = await openRuleService({ env: { WARDLINE_POLICY_DIR: folder } })
  await on.runRules()
})
afterEach(async () => {
  await on[Symbol.asyncDispose]()
  rmSync(outside, { recursive: true, force: true })
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
const stored = async () => {
  const [policy] = (await read()).policies
  const { text, document } = (await on.call<PolicyView>('GET', `/api/policies/${policy!.id}`)).body
  return { version: policy!.version, text, labels: readPolicy(document).policy.labels }
}
/** Why the policy of the only file is refused. */
const faultOf = async () => {
  const { policies, file_faults } = await read()
  expect(policies).toEqual([])
  expect(file_faults).toHaveLength(1)
  return file_faults[0]!.error
}

const mail = (labels: string) => `# Since the incident of May\ntitle: Mail\nlabels: ${labels} # ours\nflow: default\n`
const sends = 'send_it: { is: [sends], destination: [to] }\n'

it('take the place of their names in what is stored, on the same line', async () => {
  write('mail.yml', mail('./tools.labels.yaml'))
  write('tools.labels.yaml', `# Reviewed\n${sends}read_it:\n  is: untrusted\n`)
  const { policies, file_faults } = await read()
  expect([policies.map(({ file }) => file), file_faults]).toEqual([['mail.yml'], []])
  const { text, labels } = await stored()
  expect(text).toBe(mail('{"send_it":{"is":["sends"],"destination":["to"]},"read_it":{"is":"untrusted"}}'))
  expect([...labels.keys()]).toEqual(['send_it', 'read_it'])
})

it.each([
  ['in a list beside packs, of which later ones win', 'a.yml', 'title: A\nlabels:\n  - github\n  - "./a.labels.yml"\n'],
  ['in a flow list', 'a.yaml', 'title: A\nlabels: [github, a.labels.yml]\n'],
  ['on the next line', 'a.yml', 'title: A\nlabels:\n  ./a.labels.yml\nflow: strict\n'],
  ['in JSON', 'a.json', '{ "title": "A", "labels": ["github", "./a.labels.yml"] }'],
  ['in a text with Windows lines and a mark', 'a.yml', '\ufefftitle: A\r\nlabels: ./a.labels.yml\r\nflow: strict\r\n'],
])('are read %s', async (_where, name, text) => {
  write('a.labels.yml', 'Merge_Pull_Request: { is: [private] }\n')
  write(name, text)
  const { text: whole, labels } = await stored()
  expect(labels.get('merge_pull_request')?.is).toEqual(['private'])
  expect(whole.split('\n')).toHaveLength(text.split('\n').length)
})

it('are read from a folder within, whatever their name, and in JSON', async () => {
  mkdirSync(join(folder, 'labels'))
  write('labels/tools.json', '{ "send_it": { "is": ["sends"] } }')
  write('mail.yml', mail('labels/tools.json'))
  expect((await stored()).labels.get('send_it')?.is).toEqual(['sends'])
})

it('change the policy when they change, and leave it as it was while they are invalid or missing', async () => {
  write('mail.yml', mail('./tools.labels.yaml'))
  write('tools.labels.yaml', sends)
  const first = await stored()
  await read()
  expect(await stored()).toEqual(first)
  write('tools.labels.yaml', sends.replace('sends', 'private'))
  expect(await stored()).toMatchObject({ version: 2, text: expect.stringContaining('private') })

  write('tools.labels.yaml', `${sends}read_it:\n  is: unheard\n`)
  const { policies, file_faults } = await read()
  expect(policies).toMatchObject([{ file: 'mail.yml', version: 2 }])
  expect(file_faults).toEqual([
    {
      file: 'mail.yml',
      error: expect.stringMatching(/^\.\/tools\.labels\.yaml, line 3, column 3: read_it\.is\[0\] must be untrusted/),
    },
  ])
  expect(await on.eventsOf('policy_file_invalid')).toHaveLength(1)
  rmSync(join(folder, 'tools.labels.yaml'))
  const missing = await read()
  expect(missing.policies).toMatchObject([{ version: 2 }])
  expect(missing.file_faults).toMatchObject([
    { error: 'Line 3, column 1: labels names ./tools.labels.yaml. The file cannot be read (ENOENT).' },
  ])
  write('tools.labels.yaml', `${sends}read_it: { is: [untrusted] }\n`)
  expect([...(await stored()).labels.keys()]).toEqual(['send_it', 'read_it'])
})

it('are no policies, and policies are no labels', async () => {
  write('tools.labels.json', '{ "send_it": { "is": ["sends"] } }')
  expect(await read()).toMatchObject({ policies: [], file_faults: [] })
  write('tools.yaml', 'title: Tools\n')
  write('mail.yml', mail('./tools.yaml'))
  const { policies, file_faults } = await read()
  expect(policies).toMatchObject([{ file: 'tools.yaml' }])
  expect(file_faults).toMatchObject([
    { file: 'mail.yml', error: expect.stringContaining('its name must end in .labels.yaml: others are policies.') },
  ])
})

const elsewhere = 'It must be in the folder of the file that names it, or below.'
it('are not read outside the folder, by .. or by their full path', async () => {
  writeFileSync(join(outside, 'secret.labels.yaml'), sends)
  writeFileSync(join(outside, 'policies.labels.yaml'), sends)
  mkdirSync(join(folder, 'sub'))
  for (const name of [
    '../secret.labels.yaml',
    '../policies.labels.yaml',
    '../nothing.labels.yaml',
    'sub/../../secret.labels.yaml',
    join(outside, 'secret.labels.yaml'),
    join(folder, 'own.labels.yaml'),
  ]) {
    write('own.labels.yaml', sends)
    write('mail.yml', mail(name))
    expect(await faultOf(), name).toContain(elsewhere)
  }
})

it('are not read outside the folder by links, and a link within it is followed', async () => {
  writeFileSync(join(outside, 'secret.labels.yaml'), sends)
  symlinkSync(join(outside, 'secret.labels.yaml'), join(folder, 'link.labels.yaml'))
  symlinkSync(outside, join(folder, 'up'))
  for (const name of ['link.labels.yaml', 'up/secret.labels.yaml']) {
    write('mail.yml', mail(name))
    expect(await faultOf(), name).toContain(elsewhere)
  }
  // As a ConfigMap is mounted.
  mkdirSync(join(folder, '..data'))
  write('..data/tools.labels.yaml', sends)
  rmSync(join(folder, 'link.labels.yaml'))
  symlinkSync('..data/tools.labels.yaml', join(folder, 'link.labels.yaml'))
  write('mail.yml', mail('link.labels.yaml'))
  expect((await stored()).labels.get('send_it')?.is).toEqual(['sends'])
})

it.each([
  ['more than 64 KiB', `# ${'x'.repeat(70_000)}\n${sends}`, 'The file has more than 64 KiB.'],
  ['no map', '- office\n', 'tools.labels.yaml, line 1, column 1: A labels file must be a map of tools.'],
  ['nothing', '# later\n', 'tools.labels.yaml, line 1, column 1: The text has no labels.'],
  ['two documents', `${sends}---\n${sends}`, 'tools.labels.yaml, line 3, column 1: The text has a second document'],
  ['an alias', 'a: &a { is: [sends] }\nb: *a\n', 'tools.labels.yaml, line 2, column 4: Aliases'],
  ['invalid YAML', 'a: { is: [sends\n', 'tools.labels.yaml, line 2, column 1: This is not valid YAML'],
])('with %s are refused', async (_what, text, error) => {
  write('tools.labels.yaml', text)
  write('mail.yml', mail('tools.labels.yaml'))
  expect(await faultOf()).toContain(error)
})

it('that are no regular file are refused, without waiting for a writer', async () => {
  execFileSync('mkfifo', [join(folder, 'tools.labels.yaml')])
  write('mail.yml', mail('tools.labels.yaml'))
  expect(await faultOf()).toContain('It is not a regular file.')
})

it('are bounded in number, and with their policy in size', async () => {
  write('tools.labels.yaml', `${'x'.repeat(400)}: { is: [sends] }\n`)
  write('mail.yml', mail(`[${Array(21).fill('tools.labels.yaml').join(', ')}]`))
  expect(await faultOf()).toContain('labels names more than 20 files.')
  const many = Array.from({ length: 100 }, (_, at) => `${String(at).padStart(400, 'x')}: { is: [sends] }`)
  write('tools.labels.yaml', many.join('\n'))
  write('mail.yml', mail('[tools.labels.yaml, tools.labels.yaml]'))
  expect(await faultOf()).toMatch(/labels makes the policy 8\d{4} bytes long with its files; the maximum is 65536\.$/)
})

it('cannot be named over the interface', async () => {
  const sentence =
    'labels names a file, which the API cannot read: use `wardline policy add` or put the labels into the policy.'
  const fault = { line: 3, column: 1, sentence }
  for (const labels of ['./tools.labels.yaml', '[github, ours.json]', '/etc/tools.yml']) {
    const sent = await on.call<object>('POST', '/api/policies', { body: { policy: mail(labels) } })
    expect(sent).toMatchObject({
      status: 400,
      body: { error: `Line 3, column 1: ${sentence}`, faults: [fault] },
    })
    const linted = await on.call<PolicyLinted>('POST', '/api/policies/lint', { body: { policy: mail(labels) } })
    expect(linted.body.faults).toEqual([fault])
    expect((await on.call('POST', '/api/policies/backtest', { body: { policy: mail(labels) } })).status).toBe(400)
  }
})
