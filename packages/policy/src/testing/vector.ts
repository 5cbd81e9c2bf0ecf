import { argsHash } from '../canonical.ts'
import type { ListedTool } from '../guess.ts'
import { SessionMemory } from '../memory.ts'
import type { Scope } from '../policy.ts'
import { type DeliveredSet, PolicySet, PolicySetFault } from '../policy-set.ts'

interface VectorCall {
  tool: string
  args: unknown
}

/** A step of a session: what a person wrote, what a call answered, or a call to decide on. */
export type VectorStep =
  | { prompt: string }
  | { learn: VectorCall; answer: unknown }
  | { decide: VectorCall & { scope?: Scope; at: number } }
  | { hash: unknown }

/** Noon of a day. */
export const noon = Date.UTC(2026, 0, 15, 12)

export const decide = (tool: string, args: unknown, at = noon): VectorStep => ({ decide: { tool, args, at } })

/** What a step came to: a decision in short, a hash, or nothing. */
export type VectorResult = null | string | Record<string, unknown>

/** A session under a set of policies. `results` has one entry for each step; `fault` says why a set cannot be read. */
export interface Vector {
  name: string
  set: DeliveredSet
  tools?: readonly ListedTool[]
  steps: readonly VectorStep[]
}

export type CheckedVector = Vector & ({ results: readonly VectorResult[] } | { fault: string })

/** Runs the steps of a vector. */
export function runVector({ set, tools, steps }: Vector): { results: VectorResult[] } | { fault: string } {
  let held: PolicySet
  try {
    held = new PolicySet(set, tools)
  } catch (fault) {
    if (fault instanceof PolicySetFault) return { fault: fault.message }
    throw fault
  }
  const memory = new SessionMemory()
  return { results: steps.map((step) => runStep(held, memory, step)) }
}

function runStep(set: PolicySet, memory: SessionMemory, step: VectorStep): VectorResult {
  if ('prompt' in step) memory.prompt(step.prompt)
  else if ('learn' in step) set.learn(memory, step.learn, step.answer)
  else if ('hash' in step) return argsHash(step.hash) ?? null
  else {
    const { policy, observed, ...decided } = set.decide(memory, step.decide)
    return {
      ...decided,
      policy: policy?.id ?? null,
      observed: observed.map((one) => [one.policy.id, one.decision, one.rule, one.why]),
    }
  }
  return null
}
