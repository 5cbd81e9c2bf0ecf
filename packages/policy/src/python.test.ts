import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { effort } from '../../../test-servers/effort.ts'
import { noPython, python } from '../../../test-servers/python.ts'
import { randomVectors } from './testing/random-vectors.ts'
import { type CheckedVector, runVector, type Vector } from './testing/vector.ts'

const client = join(fileURLToPath(new URL('../../..', import.meta.url)), 'clients/python')

/** Reads vectors as lines of JSON, and prints what the Python client decides. */
const runner = `
import json, sys
from wardline import PolicySet, PolicySetFault, SessionMemory, args_hash
def run(vector):
    try:
        held = PolicySet(vector['set'], vector.get('tools', ()))
    except PolicySetFault as fault:
        return {'fault': str(fault)}
    memory, results = SessionMemory(), []
    for step in vector['steps']:
        result = None
        if 'prompt' in step:
            memory.prompt(step['prompt'])
        elif 'learn' in step:
            held.learn(memory, step['learn']['tool'], step['learn']['args'], step['answer'])
        elif 'hash' in step:
            result = args_hash(step['hash'])
        else:
            call = step['decide']
            one = held.decide(memory, call['tool'], call['args'], call['at'], call.get('scope'))
            result = {'decision': one.decision, 'rule': one.rule, 'why': one.why, 'approvals': one.approvals,
                      'waitMs': one.wait_ms, 'policy': one.policy and one.policy.id,
                      'observed': [[o.policy.id, o.decision, o.rule, o.why] for o in one.observed]}
        results.append(result)
    return {'results': results}
for line in sys.stdin:
    print(json.dumps(run(json.loads(line))), flush=True)
`

async function decideInPython(vectors: readonly Vector[]): Promise<unknown[]> {
  const child = spawn(python!, ['-W', 'error', '-c', runner], {
    cwd: client,
    env: { PATH: process.env.PATH ?? '', PYTHONDONTWRITEBYTECODE: '1', PYTHONIOENCODING: 'utf-8' },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  child.stdin.end(vectors.map((vector) => `${JSON.stringify(vector)}\n`).join(''))
  const results: unknown[] = []
  for await (const line of createInterface({ input: child.stdout })) results.push(JSON.parse(line))
  return results
}

test('the Python client comes to what each vector says', async ({ skip }) => {
  if (python === undefined) return skip(noPython)
  const stored = readFileSync(new URL('../../contract/vectors/policies.ndjson', import.meta.url), 'utf8')
  const vectors = stored
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as CheckedVector)
  const results = await decideInPython(vectors)
  for (const [at, { name, set: _, tools: __, steps: ___, ...outcome }] of vectors.entries()) {
    expect(results[at], name).toEqual(outcome)
  }
})

test('the Python client decides as the service’s own code on random sets of policies', async ({ skip }) => {
  if (python === undefined) return skip(noPython)
  const seed = Number(process.env.POLICY_SEED ?? 33)
  const vectors = randomVectors(seed, effort(500, 20_000))
  const results = await decideInPython(vectors)
  expect(results.length, `seed ${seed}`).toBe(vectors.length)
  for (const [at, vector] of vectors.entries()) expect(results[at], vector.name).toEqual(runVector(vector))
})
