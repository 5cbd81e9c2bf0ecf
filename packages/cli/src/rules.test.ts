import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { useCapturedOutput } from './testing/captured-output.ts'

const { output, errors, folder, write, run } = useCapturedOutput()

/** Runs a command on a file with this text, and returns its exit code. */
const rules = (command: string, text: string, ...options: string[]): Promise<number> =>
  run('rules', command, write('a.yml', text), ...options)

const burst = (count: number) => `title: Shell burst
severity: warning
detection:
  shell: { event_type: tool_call, tool: shell-exec }
  condition: shell
correlation: { type: event_count, group-by: [instance_id], timespan: 1m, condition: { gte: ${count} } }
tests:
  match:
    - - { event_type: tool_call, metadata: { tool: shell-exec } }
      - { event_type: tool_call, metadata: { tool: shell-exec }, after: 10s }
  no_match:
    - - { event_type: tool_call, metadata: { tool: shell-exec } }
      - { event_type: tool_call, metadata: { tool: shell-exec }, after: 2m }
`

test('lint accepts a rule with tests', async () => {
  expect(await rules('lint', burst(2))).toBe(0)
  expect(output).toEqual([])
  expect(errors).toEqual(['-- 1 rule, no faults'])
})

test('lint notes a response that acts on an instance while the rule counts events of several', async () => {
  const shared = burst(2)
    .replace('instance_id', 'session_id')
    .replace('tests:', 'response: [{ action: suspend }]\ntests:')
  expect(await rules('lint', shared)).toBe(0)
  expect(output.join()).toMatch(/a\.yml:7:12: note: The action suspend acts only where all events .* add instance_id/)
  output.length = 0
  expect(await rules('lint', shared, '--json')).toBe(0)
  expect(JSON.parse(output.join())).toMatchObject({ faults: [], notes: [{ line: 7 }] })
  output.length = 0
  expect(await rules('lint', shared.replace('session_id', 'session_id, instance_id'))).toBe(0)
  expect(output).toEqual([])
})

test('lint reports each fault with line and column, including missing tests', async () => {
  expect(await rules('lint', burst(2).replace('condition: shell', 'condition: shells'))).toBe(1)
  expect(output).toEqual([`${folder()}/a.yml:5:14: The condition names the selection shells, which is missing.`])
  expect(await rules('lint', burst(2).replace(/tests:.*/s, ''))).toBe(1)
  expect(output.at(-1)).toContain('a.yml:1:1: The rule has no tests')
  expect(await rules('lint', 'title: x', '--json')).toBe(1)
  expect(JSON.parse(output.at(-1)!)).toEqual({ faults: [expect.objectContaining({ line: 1, column: 1 })], notes: [] })
})

test('each failed case is reported with the reason', async () => {
  expect(await rules('test', burst(2))).toBe(0)
  expect(output).toEqual(['passed  Shell burst (2 of 2 cases)'])
  output.length = 0
  expect(await rules('test', burst(3))).toBe(1)
  expect(output).toEqual([
    'FAILED  Shell burst (1 of 2 cases)',
    `${folder()}/a.yml:9:7: Case 1 of tests.match did not fire but must: event 1 matches shell; event 2 matches shell.`,
  ])
  output.length = 0
  expect(await rules('test', burst(1))).toBe(1)
  expect(output[1]).toContain('Case 1 of tests.no_match fired at event 1 but must not (group ["test"], count 1)')
})

test('a rule is equivalent after export and import', async () => {
  expect(await rules('export', burst(2))).toBe(0)
  expect(errors).toEqual(['-- Shell burst: Sigma does not support tests: left out.'])
  expect(await rules('import', output.join(''))).toBe(0)
  expect(output[1]).toContain('type: event_count')
  expect(output[1]).toContain('tool: shell-exec')
})

test('import converts what it can, names the rest, and writes a file for each rule', async () => {
  const sigma = (title: string, key: string) => `title: ${title}\ndetection: { a: { ${key}: x }, condition: a }\n`
  expect(await rules('import', `${sigma('One', 'Image|wide')}---\n${sigma('Two', 'Image|expand')}`)).toBe(1)
  expect(output[0]).toContain('metadata.Image|wide: x')
  expect(errors).toContainEqual(expect.stringContaining('a.yml:5:19: expand needs the name of a list'))
  expect(errors.at(-1)).toBe('-- 1 rule imported, 1 file with faults')

  const target = join(folder(), 'imported')
  const file = join(folder(), 'a.yml')
  writeFileSync(file, `${sigma('Same, title!', 'Image')}---\n${sigma('same title', 'User')}`)
  expect(await run('rules', 'import', '--output', target, file)).toBe(0)
  expect(readdirSync(target).sort()).toEqual(['same-title-2.yml', 'same-title.yml'])
  expect(readFileSync(join(target, 'same-title-2.yml'), 'utf8')).toContain('metadata.User: x')
})

// Attack: a rule file from the internet controls the terminal of the operator who checks it.
test('rules that name lists are checked, tested and imported with files of entries', async () => {
  const rule = burst(2).replace('tool: shell-exec }\n', "tool|expand: '%shells%' }\n")
  const file = write('shells.txt', '# Ours\r\n  shell-exec  \r\n\r\nbash\r\n')
  expect(await rules('lint', rule)).toBe(1)
  expect(output.at(-1)).toMatch(/a\.yml:4:35: There is no list shells: `wardline lists create shells` creates it;/)
  expect(await rules('lint', rule, '--list', `shells=${file}`)).toBe(0)
  expect(await rules('test', rule, '--list', `shells=${file}`)).toBe(0)
  expect(await rules('test', rule, '--list', `shells=${write('other.txt', 'bash')}`)).toBe(1)
  expect(await rules('export', rule)).toBe(0)
  expect(errors).toContain('-- Shell burst: needs the lists shells.')
  const sigma = "title: One\ndetection: {a: {Image|expand: '%shells%'}, condition: a}\nlevel: high\n"
  expect(await rules('import', sigma)).toBe(1)
  expect(await rules('import', sigma, '--list', `shells=${file}`)).toBe(0)
  for (const wrong of ['shells', 'Shells=x', `shells=${join(folder(), 'no.txt')}`]) {
    expect(await rules('lint', rule, '--list', wrong)).toBe(64)
  }
  expect(await rules('lint', rule, '--list', `shells=${write('long.txt', 'x'.repeat(301))}`)).toBe(64)
})

test('texts of rules cannot control the terminal', async () => {
  await rules('test', burst(2).replace('Shell burst', '"\\e]0;owned\\a\\e[2J"'))
  await rules('lint', burst(2).replace('tool: shell', '"x\\e[2Jx": shell'))
  expect(output.join('')).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/)
  expect(output).not.toEqual([])
})

test('a missing file is reported with its name', async () => {
  expect(await run('rules', 'lint', join(folder(), 'no.yml'))).toBe(64)
  expect(errors[0]).toMatch(/^<files> .*no\.yml is invalid: it does not exist\.$/)
})

test('lint refuses rules that together cost an event too much, also over several files', async () => {
  const costly = (index: number) => {
    const values = Array.from({ length: 450 }, (_, value) => `v${index}-${value}`)
    return burst(2)
      .replace('Shell burst', `Costly ${index}`)
      .replace(
        'tool: shell-exec }\n  condition: shell',
        `'metadata.a|contains': [${values.join(', ')}] }\n  condition: shell`,
      )
      .replace(/tests:.*/s, 'tests: { match: [[{ metadata: { a: v0 } }]], no_match: [[{}]] }\n')
  }
  const text = [0, 1, 2].map(costly).join('---\n')
  expect(await rules('lint', text)).toBe(0)
  const others = join(folder(), 'b.yml')
  writeFileSync(others, [3, 4, 5, 6].map(costly).join('---\n'))
  expect(await rules('lint', text, others)).toBe(1)
  expect(output).toHaveLength(1)
  expect(output[0]).toMatch(
    /b\.yml:\d+:1: The rule costs an event of 16 KiB up to 7\.4 ms, and the other rules 44\.2 ms: all rules together may cost at most 50 ms/,
  )
})
