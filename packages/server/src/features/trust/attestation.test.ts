import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type AttestationRecord,
  attestationDue,
  attestationHash,
  buildAttestation,
  hashPreview,
  isoWeek,
  weeklyAttestations,
} from './attestation.ts'

const hour = 3_600_000
const day = 24 * hour
const now = Date.UTC(2026, 10, 20, 12)
const clean = { nowMs: now, riskScore: 10, severeEvents720h: 0, observingSinceMs: now - 720 * hour }
const tagsOf = (inputs: Parameters<typeof weeklyAttestations>[0]) => weeklyAttestations(inputs).map(({ tag }) => tag)

describe('weeklyAttestations', () => {
  it('attests the posture, and a clean runtime after 720 quiet hours', () => {
    expect(weeklyAttestations(clean)).toMatchObject([
      {
        namespace: 'wardline.v1',
        type: 'Posture',
        title: 'Weekly security posture',
        summary: 'Low risk. Security score 90/100',
        tag: 'posture.weekly',
        score: 90,
        at: now,
        period: '2026-W47',
      },
      {
        namespace: 'wardline.v1',
        type: 'Runtime',
        title: '30-day clean runtime',
        summary: '720h without critical incidents. Security score 90/100',
        tag: 'runtime.clean',
        score: 90,
        at: now,
        period: '2026-W47',
      },
    ])
  })

  // Claiming a clean month after an incident, or without having monitored it, would vouch for an intruder.
  it('does not attest a clean runtime after an incident or before 720 monitored hours', () => {
    expect(tagsOf({ ...clean, severeEvents720h: 1 })).toEqual(['posture.weekly'])
    expect(tagsOf({ ...clean, severeEvents720h: Number.NaN })).toEqual(['posture.weekly'])
    expect(tagsOf({ ...clean, observingSinceMs: now - 720 * hour + 1 })).toEqual(['posture.weekly'])
    expect(tagsOf({ ...clean, observingSinceMs: now + hour })).toEqual(['posture.weekly'])
    expect(tagsOf({ ...clean, observingSinceMs: null })).toEqual(['posture.weekly'])
    expect(tagsOf({ ...clean, observingSinceMs: now - 9_000 * hour })).toEqual(['posture.weekly', 'runtime.clean'])
  })

  it('gives every attestation of a week a unique pair of tag and period', () => {
    const [posture, runtime] = weeklyAttestations(clean)
    expect(posture?.period).toBe(runtime?.period)
    expect(posture?.tag).not.toBe(runtime?.tag)
    expect(posture?.hash).not.toBe(runtime?.hash)
  })
})

describe('buildAttestation', () => {
  it('inverts the risk score', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 100 }), (riskScore) => {
        const { score, summary } = buildAttestation({ kind: 'posture', nowMs: now, riskScore })
        expect(score).toBe(100 - riskScore)
        expect(summary).toContain(`Security score ${100 - riskScore}/100`)
      }),
    )
    expect(buildAttestation({ kind: 'posture', nowMs: now, riskScore: 81 }).summary).toContain('Critical risk')
  })

  it('refuses an invalid risk score', () => {
    for (const riskScore of [-1, 101, 2.5, Number.NaN, Infinity]) {
      expect(() => buildAttestation({ kind: 'posture', nowMs: now, riskScore })).toThrow(RangeError)
    }
  })
})

describe('attestationHash', () => {
  const { hash, ...record } = buildAttestation({ kind: 'runtime.clean', nowMs: now, riskScore: 10 })

  it('equals the SHA-256 of canonical JSON written by hand', () => {
    const text =
      '{"at":"2026-11-20T12:00:00.000Z","namespace":"wardline.v1","period":"2026-W47","score":90,' +
      '"summary":"720h without critical incidents. Security score 90/100","tag":"runtime.clean",' +
      '"title":"30-day clean runtime","type":"Runtime"}'
    expect(hash).toBe(`0x${createHash('sha256').update(text, 'utf8').digest('hex')}`)
    expect(attestationHash(record)).toBe(hash)
  })

  it('changes with every field of the stored record', () => {
    for (const name of Object.keys(record) as (keyof AttestationRecord)[]) {
      const value = record[name]
      const changed = { ...record, [name]: typeof value === 'number' ? value + 1 : `${value} ` }
      expect(attestationHash(changed)).not.toBe(hash)
    }
  })

  it('does not depend on field order or on extra fields', () => {
    const turned = Object.fromEntries(Object.entries({ ...record, hash, id: 'x' }).toReversed())
    expect(attestationHash(turned as AttestationRecord)).toBe(hash)
  })

  it('is shortened to its first and last characters', () => {
    expect(hashPreview(`0xdead${'0'.repeat(56)}beef`)).toBe('0xdead...beef')
    expect(hashPreview(hash)).toMatch(/^0x[0-9a-f]{4}\.\.\.[0-9a-f]{4}$/)
  })
})

describe('attestationDue', () => {
  it('is true at first, then 7 days after the last attestation', () => {
    expect(attestationDue(null, now)).toBe(true)
    expect(attestationDue(now, now)).toBe(false)
    expect(attestationDue(now - 7 * day + 1, now)).toBe(false)
    expect(attestationDue(now - 7 * day, now)).toBe(true)
    expect(attestationDue(now + day, now)).toBe(false)
  })

  it('is never true twice in one period', () => {
    fc.assert(
      fc.property(fc.nat(20_000 * day), fc.nat(30 * day), (lastAt, later) => {
        if (attestationDue(lastAt, lastAt + later)) expect(isoWeek(lastAt + later)).not.toBe(isoWeek(lastAt))
      }),
    )
  })
})

describe('isoWeek', () => {
  const known: [string, string][] = [
    ['2004-12-31', '2004-W53'],
    ['2005-01-01', '2004-W53'],
    ['2005-01-03', '2005-W01'],
    ['2007-12-31', '2008-W01'],
    ['2008-12-28', '2008-W52'],
    ['2008-12-29', '2009-W01'],
    ['2009-12-31', '2009-W53'],
    ['2010-01-03', '2009-W53'],
    ['2010-01-04', '2010-W01'],
    ['2024-12-30', '2025-W01'],
    ['2026-01-01', '2026-W01'],
    ['2026-11-16', '2026-W47'],
    ['2026-11-22', '2026-W47'],
    ['2026-11-23', '2026-W48'],
    ['2026-12-31', '2026-W53'],
    ['2027-01-03', '2026-W53'],
    ['2027-01-04', '2027-W01'],
  ]

  it.each(known)('of %s is %s', (date, week) => {
    expect(isoWeek(Date.parse(`${date}T00:00:00.000Z`))).toBe(week)
    expect(isoWeek(Date.parse(`${date}T23:59:59.999Z`))).toBe(week)
  })

  it('changes exactly on Mondays, and sorts chronologically', () => {
    // 1 January 1970 was a Thursday, so the count of whole weeks since the epoch is shifted by three days.
    const weekNumber = (at: number) => Math.floor((at / day + 3) / 7)
    fc.assert(
      fc.property(fc.nat(40_000 * day), fc.nat(40_000 * day), (a, b) => {
        const [early, late] = [Math.min(a, b), Math.max(a, b)]
        expect(isoWeek(early) === isoWeek(late)).toBe(weekNumber(early) === weekNumber(late))
        expect(isoWeek(early) <= isoWeek(late)).toBe(true)
      }),
    )
    fc.assert(
      fc.property(fc.nat(40_000 * day), fc.nat(8 * day), (at, later) => {
        expect(isoWeek(at) === isoWeek(at + later)).toBe(weekNumber(at) === weekNumber(at + later))
      }),
    )
  })
})
