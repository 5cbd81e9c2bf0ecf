import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { effort } from '../../../../../test-servers/effort.ts'
import type { Baseline, Finding } from './baseline.ts'
import { decodeBaseline, encodeBaseline } from './baseline-state.ts'
import { alarmLevel, judge } from './judge-sample.ts'
import {
  Feed,
  type Kind,
  kinds,
  mixtures,
  poisson,
  randomOf,
  type Size,
  simulateNormal,
  simulateRunaways,
} from './simulation.ts'

const seed = Number(process.env.SEED ?? 14)
const id = '0198c0de-0000-7000-8000-000000000000'
const minute = 60_000
const hour = 3_600_000
const day = 24 * hour
const start = Date.UTC(2026, 0, 5)
const allKinds = [...kinds, ...mixtures]
const kindOf = (name: string) => allKinds.find((kind) => kind.name === name)!

/** Judges samples that follow the earlier ones; the baseline is encoded and decoded as in the database after each. */
function feed(before: Baseline | null, values: Iterable<number>, everyMs = 5 * minute) {
  let baseline = before
  const findings: Finding[] = []
  for (const value of values) {
    const judged = judge(baseline, { value, at: (baseline?.at ?? start - everyMs) + everyMs }, null, () => id)
    baseline = decodeBaseline(encodeBaseline(judged.baseline))
    findings.push(...judged.findings)
  }
  return { baseline: baseline!, findings }
}
const honestValues = (samples: number, level: number, random: () => number) =>
  Array.from({ length: samples }, () => Math.round(level * (0.5 + random())))

/** Raises each agent by 5 % a day for 60 days; returns the factor at its first report, infinity if there was none. */
function simulateSlowRise(kind: Kind, { agents, seed }: Size): number[] {
  return Array.from({ length: agents }, (_, agent) => {
    const feed = new Feed(kind, agent, seed)
    feed.run(7 * day)
    const from = feed.at
    const rise = () => 1.05 ** ((feed.at - from) / day)
    let reported = Number.POSITIVE_INFINITY
    const note = (finding: Finding) => {
      if (finding.kind !== 'ended') reported = Math.min(reported, rise())
    }
    // Counts of rare events get a higher mean; all other values are multiplied.
    const change = (value: number) => (kind.mean ? poisson(feed.random, kind.mean * rise()) : value * rise())
    feed.run(60 * day, note, change)
    return reported
  })
}

/** Triples each level for three days; returns the number of reports and the hours until the new level was learnt. */
function simulateShift(kind: Kind, { agents, seed }: Size): { reports: number; learntAfter: number | null }[] {
  return Array.from({ length: agents }, (_, agent) => {
    const feed = new Feed(kind, agent, seed)
    feed.run((agent % 2 === 0 ? 4 : 8) * day)
    const from = feed.at
    const shift = { reports: 0, learntAfter: null as number | null }
    const note = (finding: Finding) => {
      if (finding.kind === 'began' || finding.kind === 'level') shift.reports++
      if (finding.kind === 'ended' && finding.outcome === 'accepted') shift.learntAfter ??= (feed.at - from) / hour
    }
    feed.run(3 * day, note, (value) => 3 * value)
    return shift
  })
}

describe(`the detector (seed ${seed})`, () => {
  // With full effort: 1,000 agents for 30 days.
  it('reports at most 20 warnings and 1 critical a day in normal traffic of 1,000 agents with seven metrics', () => {
    const [agents, days] = effort([40, 6], [1_000, 30])
    let [warnings, criticals] = [0, 0]
    for (const kind of allKinds) {
      const counts = simulateNormal(kind, { agents, days, seed })
      warnings += counts.warnings
      criticals += counts.criticals
    }
    // Scaled to seven metrics per agent, with all kinds equally frequent.
    const aDay = (1_000 * 7) / (agents * allKinds.length * (days - 1))
    process.stdout.write(
      `seed ${seed}: ${(warnings * aDay).toFixed(1)} warnings, ${(criticals * aDay).toFixed(2)} criticals a day\n`,
    )
    expect(warnings * aDay).toBeLessThanOrEqual(20)
    expect(criticals * aDay).toBeLessThanOrEqual(1)
  })

  it('reports 98 of 100 runaways of 15 minutes, with a median of at most two samples', () => {
    let tried = 0
    const delays: number[] = []
    for (const kind of allKinds) {
      const found = simulateRunaways(kind, { agents: effort(30, 300), days: 8, seed })
      tried += found.tried
      delays.push(...found.delays)
    }
    process.stdout.write(`seed ${seed}: ${delays.length} of ${tried} runaways\n`)
    expect(delays.length / tried).toBeGreaterThanOrEqual(0.98)
    expect(delays.sort()[delays.length >> 1]).toBeLessThanOrEqual(2)
  })

  it.each(kinds.map(({ name }) => name))(
    'reports a rise of 5 percent a day before the level is five times as high: %s',
    (name) => {
      for (const rise of simulateSlowRise(kindOf(name), { agents: effort(5, 100), days: 67, seed })) {
        expect(rise).toBeLessThan(5)
      }
    },
  )

  it.each(['Poisson, mean 20', 'day and night, 30 to 1'])('learns a tripled level in 25 hours: %s', (name) => {
    const shifts = simulateShift(kindOf(name), { agents: effort(30, 300), days: 3, seed })
    const learnt = shifts.filter(({ learntAfter }) => learntAfter !== null && learntAfter <= 25)
    expect(learnt.length / shifts.length).toBeGreaterThanOrEqual(0.9)
    expect(Math.max(...shifts.map(({ reports }) => reports))).toBeLessThanOrEqual(2)
    const once = shifts.filter(({ reports }) => reports === 1)
    expect(once.length / shifts.length).toBeGreaterThanOrEqual(0.6)
  })

  it('gives the same result for the same samples, and after encoding', () => {
    const random = randomOf(seed)
    const values = Array.from({ length: 2_000 }, () => Math.round(random() * 40))
    const [one, other] = [feed(null, values), feed(null, values)]
    expect(one).toEqual(other)
    expect(encodeBaseline(one.baseline)).toBe(encodeBaseline(decodeBaseline(encodeBaseline(one.baseline))!))
  })

  it('needs at most 1 KiB for an encoded baseline, for any samples', () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ noNaN: true, noDefaultInfinity: true }), { minLength: 150, maxLength: 600 }),
        (values) => {
          expect(encodeBaseline(feed(null, values, 20 * minute).baseline).length).toBeLessThanOrEqual(1_024)
        },
      ),
      { seed, numRuns: effort(30, 300) },
    )
  })

  it('decodes an unreadable baseline as none', () => {
    expect(decodeBaseline('')).toBeNull()
    expect(decodeBaseline('AQAA')).toBeNull()
    expect(decodeBaseline(`/${encodeBaseline(feed(null, [1, 2]).baseline).slice(1)}`)).toBeNull()
  })

  describe('still reports a runaway', () => {
    const extremes = fc.oneof(
      fc.constantFrom(0, -1, 1e308, -1e308, 5e-324, Number.MAX_SAFE_INTEGER, 1, 50, 500, 5_000),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
    )
    const hostile = fc.oneof(
      fc.array(extremes, { minLength: 1, maxLength: 200 }),
      // Two values in turn, which may be equal.
      fc
        .tuple(extremes, extremes, fc.integer({ min: 1, max: 100 }))
        .map(([one, other, length]) =>
          Array.from({ length: 2 * length }, (_, index) => (index % 2 === 0 ? one : other)),
        ),
    )
    const intervals = fc.constantFrom(0, 1_000, 5 * minute, 10 * minute)

    it('of 100 times the honest level within an hour, after any 200 samples', () => {
      const random = randomOf(seed)
      fc.assert(
        fc.property(hostile, intervals, fc.constantFrom(3, 40, 2_000), (values, everyMs, level) => {
          const honest = feed(null, honestValues(320, level, random)).baseline
          const after = feed(honest, values, everyMs).baseline
          const { baseline, findings } = feed(after, new Array<number>(12).fill(100 * level))
          const isReported =
            baseline.episode !== null || findings.some(({ kind }) => kind === 'began' || kind === 'rose')
          expect(isReported).toBe(true)
        }),
        { seed, numRuns: effort(200, 5_000) },
      )
    })

    it('after one absurd sample in a young baseline', () => {
      const random = randomOf(seed)
      for (const absurd of [1e308, -1e308, 1e15]) {
        const honest = [...honestValues(3, 20, random), absurd, ...honestValues(400, 20, random)]
        const { findings } = feed(feed(null, honest).baseline, [2_000, 2_000])
        expect(findings).toMatchObject([{ kind: 'began' }])
      }
    })
  })

  it('lets an intruder who stays below the alarm at most double the alarm level in a day', () => {
    const random = randomOf(seed)
    let { baseline } = feed(null, honestValues(288 * 7, 20, random))
    const alarm = (known: Baseline) => {
      // Returns the highest value that raises no alarm; the intruder is assumed to know it.
      let [low, high] = [0, 1e6]
      for (let step = 0; step < 40; step++) {
        const middle = (low + high) / 2
        const sample = { value: middle, at: known.at + 5 * minute }
        if (judge(known, sample, null, () => id).findings.length > 0) high = middle
        else low = middle
      }
      return low
    }
    for (let day = 0; day < 5; day++) {
      const before = alarmLevel(baseline.main)
      for (let sample = 0; sample < 288; sample++) {
        const { at } = baseline
        baseline = judge(baseline, { value: 0.999 * alarm(baseline), at: at + 5 * minute }, null, () => id).baseline
      }
      // Plus 2, so that an alarm level of 1 may become 3.
      expect(alarmLevel(baseline.main)).toBeLessThanOrEqual(2 * (before + 2))
    }
  })

  it('reports a daytime level at night after five weeks of quiet nights, but not after two or without quiet nights', () => {
    const random = randomOf(seed)
    const isBusy = (at: number) => at % (24 * hour) >= 8 * hour && at % (24 * hour) < 18 * hour
    const samplesOf = (days: number, at: number, busy: number) =>
      Array.from({ length: days * 288 }, (_, index) =>
        Math.round((isBusy(at + index * 5 * minute) ? busy : 1) * (0.5 + random())),
      )
    const atNight = [40, 40]
    // The samples end at midnight; 40 is usual by day.
    expect(feed(feed(null, samplesOf(14, start, 40)).baseline, atNight).findings).toEqual([])
    const { findings } = feed(feed(null, samplesOf(35, start, 40)).baseline, atNight)
    expect(findings).toMatchObject([{ kind: 'began', grounds: { isQuietTime: true } }])
    const constant = Array.from({ length: 35 * 288 }, () => Math.round(40 * (0.5 + random())))
    expect(feed(feed(null, constant).baseline, atNight).findings).toEqual([])
  })
})
