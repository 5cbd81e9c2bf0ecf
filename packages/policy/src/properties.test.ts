import { expect, test } from 'vitest'
import { SessionMemory } from './memory.ts'
import { decisions } from './policy.ts'
import { type DeliveredSet, PolicySet, type SetDecision } from './policy-set.ts'
import { randomVectors } from './testing/random-vectors.ts'
import type { Vector } from './testing/vector.ts'

const seed = Number(process.env.POLICY_SEED ?? Math.floor(Math.random() * 1e9))
const vectors = randomVectors(seed, 600)
type Delivered = DeliveredSet['policies'][number]
interface Document {
  rules: Record<string, unknown>[]
}

const rank = ({ decision, approvals }: SetDecision): number =>
  2 * decisions.indexOf(decision) + (decision === 'ask' ? approvals - 1 : 0)
const copyOf = (memory: SessionMemory) => new SessionMemory(JSON.parse(JSON.stringify(memory.stored())))
const changed = ({ set, tools }: Vector, change: (policies: readonly Delivered[]) => readonly Delivered[]) =>
  new PolicySet({ agent: set.agent, policies: change(set.policies) }, tools)
const withRules = (policy: Delivered, change: (rules: Document['rules']) => Document['rules']): Delivered => {
  const document = policy.document as Document
  return { ...policy, document: { ...document, rules: change(document.rules) } }
}

/** Takes each call of random sessions: `check` gets what the set decides, and decides by another set in the same session. */
function forEachCall(
  other: (vector: Vector, index: number) => PolicySet,
  check: (one: SetDecision, by: SetDecision) => void,
) {
  for (const [index, vector] of vectors.entries()) {
    const [set, changedSet] = [new PolicySet(vector.set, vector.tools), other(vector, index)]
    const memory = new SessionMemory()
    for (const step of vector.steps) {
      if ('prompt' in step) memory.prompt(step.prompt)
      else if ('learn' in step) set.learn(memory, step.learn, step.answer)
      else if ('decide' in step) {
        const by = changedSet.decide(copyOf(memory), step.decide)
        check(set.decide(memory, step.decide), by)
      }
    }
  }
}

const inSeed = `seed ${seed}`

test('the order of rules and of policies decides nothing', () => {
  forEachCall(
    (vector) =>
      changed(vector, (policies) => policies.map((one) => withRules(one, (rules) => rules.toReversed())).toReversed()),
    (one, by) => expect([by.decision, by.approvals], inSeed).toEqual([one.decision, one.approvals]),
  )
})

test('one more rule that asks or denies never loosens', () => {
  const donors: Record<string, unknown>[] = vectors.flatMap(({ set }) =>
    set.policies.flatMap(({ document }) => (document as Document).rules),
  )
  const strict = donors.filter(({ decision }) => decision !== 'allow')
  forEachCall(
    (vector, index) => {
      const added: Record<string, unknown> = { ...strict[index % strict.length]!, title: 'Added' }
      // With a default that is stricter, a rule that asks is the exception.
      const isException = ({ document }: Delivered) =>
        (document as { default?: string }).default === 'deny' && added.decision === 'ask'
      return changed(vector, (policies) =>
        policies.map((one) => (isException(one) ? one : withRules(one, (rules) => [...rules, added]))),
      )
    },
    (one, by) => expect(rank(by), inSeed).toBeGreaterThanOrEqual(rank(one)),
  )
})

test('one more policy never loosens', () => {
  forEachCall(
    (vector, index) => {
      const [added] = vectors[(index + 1) % vectors.length]!.set.policies
      return changed(vector, (policies) => [...policies, { ...added!, id: 'added' }])
    },
    (one, by) => expect(rank(by), inSeed).toBeGreaterThanOrEqual(rank(one)),
  )
})

test('arguments that cannot be read are never treated better than others', () => {
  const cycle: Record<string, unknown> = {}
  cycle.self = cycle
  let asked = 0
  for (const vector of vectors) {
    const set = new PolicySet(vector.set, vector.tools)
    const memory = new SessionMemory()
    for (const step of vector.steps) {
      if ('prompt' in step) memory.prompt(step.prompt)
      else if ('learn' in step) set.learn(memory, step.learn, step.answer)
      else if ('decide' in step) {
        const unreadable = set.decide(copyOf(memory), { ...step.decide, args: cycle })
        const readable = set.decide(memory, step.decide)
        if (rank(unreadable) > rank(readable)) asked += 1
        expect(rank(unreadable), inSeed).toBeGreaterThanOrEqual(rank(readable))
      }
    }
  }
  expect(asked).toBeGreaterThan(100)
})

test('policies in mode observe never block, and change nothing for the others', () => {
  const observing = (one: Delivered): Delivered => ({ ...one, mode: 'observe' })
  forEachCall(
    (vector) => changed(vector, (policies) => policies.map(observing)),
    (_one, by) => expect([by.decision, by.policy], inSeed).toEqual(['allow', null]),
  )
  for (const [index, vector] of vectors.entries()) {
    const further = vectors[(index + 1) % vectors.length]!.set.policies.map((one, at) => ({
      ...observing(one),
      id: `o${at}`,
    }))
    const set = new PolicySet(vector.set, vector.tools)
    const both = changed(vector, (policies) => [...further, ...policies])
    const [memory, other] = [new SessionMemory(), new SessionMemory()]
    for (const step of vector.steps) {
      if ('prompt' in step) for (const each of [memory, other]) each.prompt(step.prompt)
      else if ('learn' in step) {
        set.learn(memory, step.learn, step.answer)
        both.learn(other, step.learn, step.answer)
      } else if ('decide' in step) {
        const { observed: _, ...alone } = set.decide(memory, step.decide)
        const { observed: __, ...beside } = both.decide(other, step.decide)
        expect(beside, inSeed).toEqual(alone)
      }
    }
  }
})
