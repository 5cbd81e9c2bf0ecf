import type { ContainmentSummary } from '@wardline/contract'
import { describe, expect, test } from 'vitest'
import { openContainments } from '../data/open-containments.ts'
import { containmentHeading, nextSentence, selectorText, unprovenText } from './containment-texts.ts'

const containment = (fields: Partial<ContainmentSummary>): ContainmentSummary =>
  ({
    id: 'one',
    action: 'suspend',
    state: 'complete',
    requested: 140,
    changed: 140,
    skipped: 0,
    confirmed: 140,
    proven: 0,
    violated: 0,
    missing_count: 0,
    ...fields,
  }) as ContainmentSummary

describe('the heading of a containment', () => {
  test.each([
    [{ state: 'in_progress', confirmed: 92 }, 'Suspending 140 agents: 92 confirmed'],
    [{ state: 'partial', confirmed: 137 }, 'Partial: 137 of 140 agents confirmed the suspension'],
    [{ state: 'failed', confirmed: 0 }, 'None of 140 agents confirmed the suspension'],
    [
      { state: 'partial', enforcement: { calls: 5, confirmed: 2, failed: 1 } },
      'Partial: 140 agents confirmed the suspension, but only 2 of 5 calls to enforcement points',
    ],
    [{ proven: 120 }, '140 agents confirmed, 120 of them proven stopped'],
    [{ proven: 140 }, '140 agents proven stopped'],
    [{ changed: 0, confirmed: 0 }, 'Nothing to suspend: another operator did it first'],
    [{ action: 'resume' }, '140 agents resumed and confirmed'],
  ] satisfies [Partial<ContainmentSummary>, string][])('%j is "%s"', (fields, sentence) => {
    expect(containmentHeading(containment(fields))).toBe(sentence)
  })

  // Whatever the counts are, no sentence claims that the fleet stopped without proof for every agent.
  test('never claims more agents stopped than are proven', () => {
    for (const state of ['in_progress', 'partial', 'complete', 'failed'] as const) {
      for (let proven = 0; proven < 140; proven += 7) {
        const text = containmentHeading(containment({ state, proven }))
        expect(/(\d+)[^\d]*proven stopped/.exec(text)?.[1] ?? String(proven), text).toBe(String(proven))
        expect(nextSentence(containment({ state, proven }))).not.toContain('stopped')
      }
    }
  })

  test('names a few agents and counts the others', () => {
    expect(selectorText({ instances: ['a', 'b'] }, 2)).toBe('a, b')
    expect(selectorText({ instances: ['a', 'b', 'c', 'd'] }, 140)).toBe('a, b, c and 137 more')
    expect(selectorText({ tags: ['env:prod', 'finance'] })).toBe('agents with env:prod and finance')
  })
})

describe('a containment stays open', () => {
  const calm = { unconfirmed: 0, partial: 0, unresumed: 0 }
  const deaf = { ...calm, unconfirmed: 1 }

  test('while it is in progress, or partial with an agent that may still be working', () => {
    const partial = containment({ state: 'partial' })
    expect(openContainments([containment({ state: 'in_progress' })], calm)).toHaveLength(1)
    expect(openContainments([partial], deaf)).toHaveLength(1)
    expect(openContainments([partial], { ...calm, partial: 1 })).toHaveLength(1)
    expect(openContainments([partial], { ...calm, unresumed: 1 })).toEqual([])
    expect(openContainments([{ ...partial, action: 'resume' }], { ...calm, unresumed: 1 })).toHaveLength(1)
    expect(openContainments([containment({})], deaf)).toEqual([])
  })
})

test.each([
  [1, 1, '1 suspended agent is not known to have stopped yet; it may still be working.'],
  [1, 0, '1 suspended agent is not known to have stopped yet.'],
  [3, 3, '3 suspended agents are not known to have stopped yet; they may still be working.'],
  [1_200, 2, '1,200 suspended agents are not known to have stopped yet; 2 may still be working.'],
])('of %d unproven suspensions, %d unconfirmed: %s', (unproven, unconfirmed, sentence) => {
  expect(unprovenText({ unproven, unconfirmed })).toBe(sentence)
})
