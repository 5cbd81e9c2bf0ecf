import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { useCapturedOutput } from './testing/captured-output.ts'

const { output, errors, run } = useCapturedOutput()
const incidents = fileURLToPath(new URL('../../../examples/incidents', import.meta.url))
const policy = join(incidents, 'policy.yaml')

const rows = [...readFileSync(join(incidents, 'README.md'), 'utf8').matchAll(/^\| \[([\w-]+)\].*\| ([^|]+) \|$/gm)].map(
  ([, name, stoppedBy]) => [name!, stoppedBy!] as const,
)

test('the policy of the incidents has no faults, and each session has its row', async () => {
  expect(await run('policy', 'lint', policy), output.join('\n')).toBe(0)
  const sessions = readdirSync(incidents).filter((file) => file.endsWith('.ndjson'))
  expect(rows.map(([name]) => `${name}.ndjson`).sort()).toEqual(sessions.sort())
  expect(rows.length).toBeGreaterThanOrEqual(12)
})

test.each(rows)('%s is stopped by what its row says: %s', async (name, stoppedBy) => {
  await run('policy', 'replay', join(incidents, `${name}.ndjson`), '--policy', policy, '--stop-on', 'ask')
  expect(errors.join('\n')).toContain('1 session')
  const { decisions } = JSON.parse(output.at(-1)!) as { decisions: { decision: string; rule: string | null }[] }
  const stopped = decisions.find(({ decision }) => decision !== 'allow')
  expect(stopped ? `${stopped.decision}: ${stopped.rule}` : 'nothing').toBe(stoppedBy.replace(/^(nothing):.*/, '$1'))
})
