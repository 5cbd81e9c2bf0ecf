import type { Baseline, Episode } from './baseline.ts'
import { weekSlots } from './quiet-times.ts'
import type { Summary } from './summary.ts'

/** First byte of a state. A baseline with a state of another version starts again. */
const stateVersion = 1
/** Maximum size of a state. */
const maxBytes = 768

/** Shared buffer, because encoding is synchronous. */
const scratch = Buffer.alloc(maxBytes)

/** Writes numbers in sequence. */
class Writer {
  readonly #bytes = scratch
  #at = 0

  byte(value: number): void {
    this.#at = this.#bytes.writeUInt8(value, this.#at)
  }
  integer(value: number): void {
    this.#at = this.#bytes.writeInt32LE(value, this.#at)
  }
  single(value: number): void {
    this.#at = this.#bytes.writeFloatLE(value, this.#at)
  }
  double(value: number): void {
    this.#at = this.#bytes.writeDoubleLE(value, this.#at)
  }
  raw(bytes: Uint8Array): void {
    this.#bytes.set(bytes, this.#at)
    this.#at += bytes.length
  }
  summary({ values, weights }: Summary): void {
    this.byte(values.length)
    for (const value of values) this.single(value)
    for (const weight of weights) this.single(weight)
  }
  text(): string {
    return this.#bytes.toString('base64', 0, this.#at)
  }
}

class Reader {
  readonly #bytes: Buffer
  #at = 0

  constructor(text: string) {
    this.#bytes = Buffer.from(text, 'base64')
  }
  byte(): number {
    return this.#bytes.readUInt8(this.#at++)
  }
  integer(): number {
    this.#at += 4
    return this.#bytes.readInt32LE(this.#at - 4)
  }
  single(): number {
    this.#at += 4
    return this.#bytes.readFloatLE(this.#at - 4)
  }
  double(): number {
    this.#at += 8
    return this.#bytes.readDoubleLE(this.#at - 8)
  }
  raw(length: number): Uint8Array {
    this.#at += length
    return new Uint8Array(this.#bytes.subarray(this.#at - length, this.#at))
  }
  summary(): Summary {
    const length = this.byte()
    const values: number[] = []
    const weights: number[] = []
    let total = 0
    for (let index = 0; index < length; index++) values.push(this.single())
    for (let index = 0; index < length; index++) {
      const weight = this.single()
      weights.push(weight)
      total += weight
    }
    return { values, weights, total }
  }
}

/** Encodes a baseline as text of at most 1 KiB. */
export function encodeBaseline(baseline: Baseline): string {
  const { main, quiet, times, drift, accepted, episode } = baseline
  const writer = new Writer()
  writer.byte(stateVersion)
  writer.double(baseline.since)
  writer.double(baseline.at)
  writer.double(baseline.samples)
  writer.double(baseline.mean)
  writer.double(baseline.m2)
  writer.double(baseline.highest)
  writer.double(baseline.highestAt)
  writer.summary(main)
  writer.summary(quiet)
  writer.double(times.since)
  writer.integer(times.week)
  writer.raw(times.maxima)
  writer.single(baseline.beyond)
  writer.single(baseline.together)
  writer.byte(baseline.wasBeyond ? 1 : 0)
  // Longer runs make no further difference.
  writer.byte(Math.min(255, baseline.run))
  writer.single(baseline.evidence)
  writer.double(baseline.pending)
  writer.integer(drift.day)
  for (const level of [drift.level, drift.levelBefore, drift.high, drift.highBefore, drift.reference]) {
    writer.single(level)
  }
  writer.double(drift.settlesAt)
  writer.double(drift.referenceUntil)
  writer.double(accepted.at)
  writer.single(accepted.level)
  writer.byte(episode ? 1 : 0)
  if (episode) writeEpisode(writer, episode)
  return writer.text()
}

function writeEpisode(writer: Writer, episode: Episode): void {
  writer.raw(Buffer.from(episode.id.replaceAll('-', ''), 'hex'))
  writer.double(episode.begunAt)
  writer.double(episode.lastAt)
  writer.byte(episode.severity === 'critical' ? 1 : 0)
  writer.double(episode.peak)
  writer.integer(Math.min(0x7fffffff, episode.exceeding))
  writer.integer(Math.min(0x7fffffff, episode.calm))
  writer.byte(Math.min(255, episode.calmInRow))
  writer.summary(episode.candidate)
}

/** Decodes a baseline. Returns null without samples or for an unreadable state: the baseline starts again. */
export function decodeBaseline(text: string): Baseline | null {
  try {
    const reader = new Reader(text)
    return text !== '' && reader.byte() === stateVersion ? readBaseline(reader) : null
  } catch (fault) {
    if (fault instanceof RangeError) return null
    throw fault
  }
}

function readBaseline(reader: Reader): Baseline {
  return {
    since: reader.double(),
    at: reader.double(),
    samples: reader.double(),
    mean: reader.double(),
    m2: reader.double(),
    highest: reader.double(),
    highestAt: reader.double(),
    main: reader.summary(),
    quiet: reader.summary(),
    times: { since: reader.double(), week: reader.integer(), maxima: reader.raw(weekSlots) },
    beyond: reader.single(),
    together: reader.single(),
    wasBeyond: reader.byte() === 1,
    run: reader.byte(),
    evidence: reader.single(),
    pending: reader.double(),
    drift: {
      day: reader.integer(),
      level: reader.single(),
      levelBefore: reader.single(),
      high: reader.single(),
      highBefore: reader.single(),
      reference: reader.single(),
      settlesAt: reader.double(),
      referenceUntil: reader.double(),
    },
    accepted: { at: reader.double(), level: reader.single() },
    episode: reader.byte() === 1 ? readEpisode(reader) : null,
  }
}

function readEpisode(reader: Reader): Episode {
  const hex = Buffer.from(reader.raw(16)).toString('hex')
  return {
    id: hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5'),
    begunAt: reader.double(),
    lastAt: reader.double(),
    severity: reader.byte() === 1 ? 'critical' : 'warning',
    peak: reader.double(),
    exceeding: reader.integer(),
    calm: reader.integer(),
    calmInRow: reader.byte(),
    candidate: reader.summary(),
  }
}
