import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { noPython, python } from '../../test-servers/python.ts'
import { runCommand } from '../command.ts'
import { newDataDir, startService } from '../service.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const vectors = join(root, 'docs/reference/incident-bundle')
const program = join(root, 'clients/python/verify_incident.py')

const runPython = (args: string[]) =>
  new Promise<{ code: number; stdout: string; stderr: string }>((resolve) => {
    const env = { PATH: process.env.PATH, PYTHONDONTWRITEBYTECODE: '1' }
    const child = execFile(python!, ['-W', 'error', program, ...args], { env }, (_fault, stdout, stderr) =>
      resolve({ code: child.exitCode ?? -1, stdout, stderr }),
    )
  })

test('the Python verifier prints what the command line prints, with the same exit code', async ({ skip }) => {
  if (python === undefined) return skip(noPython)
  const service = await startService()
  const empty = join(newDataDir(), 'empty.json')
  writeFileSync(empty, '{}')
  const keys = join(vectors, 'keys.json')
  const valid = join(vectors, 'valid.tar.gz')
  const cases: [args: string[], code: number, printsTheSame: boolean][] = [
    [[valid], 0, true],
    [[valid, '--keys', keys], 0, true],
    [[join(vectors, 'valid-empty.tar.gz'), '--keys', keys], 0, true],
    [[join(vectors, 'bit-in-events.tar.gz')], 1, true],
    [[join(vectors, 'other-key.tar.gz'), '--keys', keys], 1, true],
    [[valid, '--keys', service.baseUrl], 1, true],
    [[valid, '--keys', empty], 2, false],
    [[valid, '--keys', 'http://127.0.0.1:1'], 4, false],
    [[join(vectors, 'missing.tar.gz')], 1, false],
    [[], 64, false],
  ]
  for (const [args, code, printsTheSame] of cases) {
    const [ours, theirs] = [await runCommand(['incident', 'verify', ...args], {}), await runPython(args)]
    const what = `${args.join(' ')}\n${ours.output}\n${theirs.stderr}`
    expect([ours.code, theirs.code], what).toEqual([code, code])
    expect(theirs.stderr).not.toContain('Traceback')
    if (printsTheSame) expect([theirs.stdout, theirs.stderr], what).toEqual([ours.stdout, ours.stderr])
  }
  const { stdout } = await runPython([valid, '--keys', keys, '--json'])
  expect(JSON.parse(stdout)).toEqual(
    JSON.parse((await runCommand(['incident', 'verify', valid, '--keys', keys, '--json'], {})).stdout),
  )
})
