import fc from 'fast-check'
import { describe, expect, it, test } from 'vitest'
import { effort } from '../../../../../test-servers/effort.ts'
import { type Hold, mayResume, onSuspend } from './holds.ts'

const runs = { seed: 37, numRuns: effort(200, 20_000) }
const now = 1_000
const person: Hold = { endsAt: null, twoPerson: false, holdsKey: false }
const soon: Hold = { endsAt: now + 20, twoPerson: false, holdsKey: false }
const late: Hold = { endsAt: now + 900, twoPerson: false, holdsKey: false }
const fleet: Hold = { endsAt: null, twoPerson: false, holdsKey: true }
const through: Hold = { endsAt: null, twoPerson: false, holdsKey: false, isThrough: true }
const twoPersons: Hold = { endsAt: null, twoPerson: true, holdsKey: true }

describe('a request to suspend', () => {
  test.each([
    ['nothing', undefined, soon, 'suspend'],
    ['nothing', undefined, person, 'suspend'],
    ['a short timer', soon, soon, 'keep'],
    ['a short timer', soon, late, 'extend'],
    ['a short timer', soon, person, 'take_over'],
    ['a short timer', soon, twoPersons, 'take_over'],
    ['a long timer', late, soon, 'keep'],
    ['a long timer', late, person, 'take_over'],
    ['a suspension without end', person, late, 'keep'],
    ['a suspension without end', person, person, 'keep'],
    ['a suspension without end', person, fleet, 'hold_key'],
    ['a suspension without end', person, twoPersons, 'take_over'],
    ['one whose key is held', fleet, fleet, 'keep'],
    ['one whose key is held', fleet, person, 'keep'],
    ['one that a resume is about to end', { ...person, isEnding: true }, person, 'take_over'],
    ['one that a resume is about to end', { ...twoPersons, isEnding: true }, person, 'take_over'],
    ['one that a resume is about to end', { ...person, isEnding: true }, late, 'take_over'],
    ['one that a resume is about to end', { ...late, isEnding: true }, soon, 'take_over'],
    ['one through a parent', through, soon, 'take_over'],
    ['one through a parent', through, person, 'take_over'],
    ['one through a parent', through, fleet, 'take_over'],
    ['one through a parent', through, twoPersons, 'take_over'],
    ['one for two persons', twoPersons, late, 'keep'],
    ['one for two persons', twoPersons, person, 'keep'],
    ['one for two persons', twoPersons, twoPersons, 'keep'],
  ] as const)('where %s holds: %o, requested %o: %s', (_name, held, requested, verdict) => {
    expect(onSuspend(held, requested)).toBe(verdict)
  })
})

const end = fc.option(fc.integer({ min: 0, max: 2_000 }), { nil: null })
const anyHold: fc.Arbitrary<Hold> = fc
  .record({ endsAt: end, twoPerson: fc.boolean(), holdsKey: fc.boolean() })
  // Only fleet stops need two persons and hold keys, and none of them has a timer.
  .map(({ endsAt, twoPerson, holdsKey }) => ({
    endsAt,
    twoPerson: endsAt === null && twoPerson,
    holdsKey: endsAt === null && (twoPerson || holdsKey),
  }))

/** Returns what holds after a request. */
function after(held: Hold | undefined, requested: Hold): Hold {
  const verdict = onSuspend(held, requested)
  if (verdict === 'extend') return { ...held!, endsAt: requested.endsAt }
  if (verdict === 'hold_key') return { ...held!, holdsKey: true }
  return verdict === 'keep' ? held! : requested
}

const endOf = ({ endsAt }: Hold) => endsAt ?? Number.POSITIVE_INFINITY
const requests = fc.array(anyHold, { minLength: 1, maxLength: 8 })
const last = (list: readonly Hold[]) => list.reduce<Hold | undefined>(after, undefined)

describe('of several suspensions', () => {
  it('none makes what holds shorter or weaker', () => {
    const property = fc.property(requests, (list) => {
      let held: Hold | undefined
      for (const requested of list) {
        const next = after(held, requested)
        for (const earlier of held ? [held, requested] : [requested]) {
          expect(endOf(next)).toBeGreaterThanOrEqual(endOf(earlier))
          if (earlier.twoPerson) expect(next.twoPerson).toBe(true)
          if (earlier.holdsKey) expect(next.holdsKey).toBe(true)
        }
        held = next
      }
    })
    fc.assert(property, runs)
  })

  it('the same one holds in the end, in whatever order they were requested', () => {
    const orders = requests.chain((list) =>
      fc.tuple(fc.constant(list), fc.shuffledSubarray(list, { minLength: list.length, maxLength: list.length })),
    )
    fc.assert(
      fc.property(orders, ([first, second]) => {
        expect(last(second)).toEqual(last(first))
      }),
      runs,
    )
  })

  it('none changes anything when it is requested again', () => {
    const property = fc.property(requests, (list) => {
      for (const requested of list) expect(onSuspend(last(list), requested)).toBe('keep')
    })
    fc.assert(property, runs)
  })
})

describe('a resume', () => {
  test.each([
    ['its own timer, when its time is over', soon, { timerOf: 3, now: now + 20 }, true],
    ['its own timer, too early', soon, { timerOf: 3, now: now + 19 }, false],
    ['the timer of an earlier suspension', soon, { timerOf: 2, now: now + 20 }, false],
    ['its own timer, after it was extended', late, { timerOf: 3, now: now + 20 }, false],
    ['a timer of a suspension without end', person, { timerOf: 3, now: now + 9_999 }, false],
    ['a timer of a suspension for two persons', twoPersons, { timerOf: 3, now: now + 9_999 }, false],
    ['one operator, from a timer', soon, { operators: 1 }, true],
    ['one operator', person, { operators: 1 }, true],
    ['one operator, where two are needed', twoPersons, { operators: 1 }, false],
    ['two operators', twoPersons, { operators: 2 }, true],
  ] as const)('by %s: %o, %o is allowed: %s', (_name, held, by, allowed) => {
    expect(mayResume({ ...held, version: 3 }, by)).toBe(allowed)
  })

  it('by a timer never ends a suspension that has no end or another version', () => {
    const attempt = fc.record({ held: anyHold, version: fc.nat(5), timerOf: fc.nat(5), now: fc.nat(3_000) })
    fc.assert(
      fc.property(attempt, ({ held, version, timerOf, now: at }) => {
        if (!mayResume({ ...held, version }, { timerOf, now: at })) return
        expect(version).toBe(timerOf)
        expect(endOf(held)).toBeLessThanOrEqual(at)
        expect(held.twoPerson).toBe(false)
      }),
      runs,
    )
  })
})
