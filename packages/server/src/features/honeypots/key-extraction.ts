import type { Slices, WorkBudget } from '../../work-turns.ts'
import { joined, type Reading, readings, unpackedReadings } from './key-decoding.ts'
import {
  awsSecretLength,
  foldedForm,
  holdsOneMark,
  isHex,
  isMixed,
  isMixedFolded,
  keyFormats,
  tokenLengths,
  wrappedMark,
} from './key-formats.ts'
import { alphabet, runsOf } from './key-runs.ts'
import { withoutEscapes } from './text-escapes.ts'

/** Maximum number of characters searched. A caller that must miss nothing rejects longer texts. */
export const maxKeyInputLength = 64 * 1024

/**
 * Maximum number of candidates per stage of a search. The shortest shape has 20 characters and two finds share at most a mark, so
 * even 64 KiB of key-shaped filler has too few certain finds to push a decoy out.
 */
export const maxKeyCandidates = 8192

/** Maximum number of nested encodings. */
const maxDepth = 4
/** Number of layers whose texts are also read backwards. */
const reversedDepth = 2
/**
 * Cost of searching a reading for all shapes: per character, per occurrence of a mark, per text with the shape of a
 * key.
 */
const unitsOfSearch = 10
const unitsOfPlace = 300
/** Cost per character of undoing escapes and joining lines. */
const unitsOfReading = 20
const unitsOfFind = 1_000

/**
 * Finds every text inside `input` that could be a decoy, in the canonical form in which decoys are fingerprinted; the
 * caller looks each one up. `input` is anything an agent was about to use: a key, a header, a line of an env file,
 * JSON, a URL, a command, encoded or not. Work is linear in the input. Each layer of readings is searched before any of
 * it is decoded further, so that costly encodings do not hide what is plain beside them. Searches that the budget does
 * not cover are skipped.
 */
export class KeySearch {
  readonly #whole: Reading
  readonly #budget: WorkBudget
  readonly #seen: Set<string>
  /** Candidates that were already returned. */
  readonly #returned = new Set<string>()
  #layer: Reading[]

  constructor(input: string, budget: WorkBudget) {
    this.#whole = { text: input.slice(0, maxKeyInputLength), origin: 'whole' }
    this.#budget = budget
    this.#seen = new Set([this.#whole.text])
    this.#layer = [this.#whole]
  }

  /** Searches the text as it is, and in each single encoding. */
  *plainCandidates(): Slices<string[]> {
    const found = new Candidates()
    for (const form of wholeForms(this.#whole.text)) found.certain.add(form)
    yield* this.#search(found)
    yield* this.#decode(0)
    yield* this.#search(found)
    return this.#take(found)
  }

  /** Searches the text in nested encodings, after `plainCandidates`. */
  *nestedCandidates(): Slices<string[]> {
    const found = new Candidates()
    for (let depth = 1; depth < maxDepth; depth++) {
      yield* this.#decode(depth)
      yield* this.#search(found)
    }
    return this.#take(found)
  }

  /** Searches the text as it is, without the escapes of JSON, and with the lines of a key joined; decodes nothing. */
  *writtenCandidates(): Slices<string[]> {
    const found = new Candidates()
    yield* this.#search(found)
    this.#layer = []
    let { text } = this.#whole
    // The arguments of a tool are JSON in a string of JSON.
    for (let level = 0; level < 2 && text.includes('\\'); level++) {
      if (!this.#budget.take(text.length * unitsOfReading)) break
      text = withoutEscapes(text)
      this.#add([{ text, origin: 'unescaped' }])
    }
    if (text.includes(wrappedMark) && this.#budget.take(text.length * unitsOfReading)) {
      this.#add([{ text: joined(text), origin: 'joined' }])
    }
    yield* this.#search(found)
    return this.#take(found)
  }

  *#search(found: Candidates): Slices<void> {
    for (const { text, origin } of this.#layer) {
      if (!this.#budget.take(text.length * unitsOfSearch)) return
      yield* collectMarkedKeys(text, found.certain, this.#budget)
      // Skip tokens cut out of longer runs in reversed text: any encoded picture would yield thousands.
      const cut = origin === 'reversed' ? new Set<string>() : found.doubtful
      collectTokens(text, found.certain, cut)
      collectAwsSecrets(text, found.certain, cut)
      if (this.#budget.isSliceOver()) yield
      yield* collectFolded(text, found.folded, this.#budget)
    }
  }

  *#decode(depth: number): Slices<void> {
    const layer = this.#layer
    this.#layer = []
    for (const reading of layer) this.#add(yield* readings(reading, depth < reversedDepth, this.#budget))
    if (depth === 0) return
    for (const reading of depth === 1 ? [this.#whole, ...layer] : layer) {
      this.#add(yield* unpackedReadings(reading, this.#budget))
    }
  }

  #add(found: readonly Reading[]): void {
    for (const reading of found) {
      if (reading.text === '' || this.#seen.has(reading.text)) continue
      this.#seen.add(reading.text)
      this.#layer.push(reading)
    }
  }

  #take({ certain, doubtful, folded }: Candidates): string[] {
    const found = [...new Set([...certain, ...doubtful, ...folded])].filter((form) => !this.#returned.has(form))
    if (found.length > maxKeyCandidates) this.#budget.exhaust()
    const taken = found.slice(0, maxKeyCandidates)
    for (const form of taken) this.#returned.add(form)
    return taken
  }
}

/**
 * Certain finds (the whole text, shapes with a mark, tokens that stand alone) come before doubtful ones (bare tokens cut
 * out of a longer run), and these before keys written in one case.
 */
class Candidates {
  readonly certain = new Set<string>()
  readonly doubtful = new Set<string>()
  readonly folded = new Set<string>()
}

const assignment = /^(?:export\s|set\s)?\s*["']?[A-Za-z_][\w.-]{0,99}["']?\s?[=:]\s?/
const scheme = /^(?:bearer|basic|token|apikey)\s/i

/** Returns the submitted text, and the text without an assignment, a header's scheme and quotes. */
function wholeForms(text: string): string[] {
  const trimmed = text.trim()
  const value = trimmed.replace(assignment, '').trim()
  const bare = value.replace(scheme, '').trim()
  return [trimmed, value, bare, unquoted(trimmed), unquoted(value), unquoted(bare)].filter((form) => form !== '')
}

function unquoted(text: string): string {
  return text.replace(/^["'`]/, '').replace(/["'`][,;]?$/, '')
}

function* collectMarkedKeys(text: string, found: Set<string>, budget: WorkBudget): Slices<void> {
  for (const { mark, before, shape, isGenuine } of keyFormats) {
    for (let place = text.indexOf(mark); place !== -1; place = text.indexOf(mark, place + 1)) {
      if (!budget.take(unitsOfPlace)) return
      shape.lastIndex = place - before
      const value = place >= before ? shape.exec(text)?.[0] : undefined
      if (value !== undefined && budget.take(unitsOfFind)) {
        if (holdsOneMark(value, before) && isGenuine?.(value) !== false) found.add(value)
      }
      if (budget.isSliceOver()) yield
    }
  }
}

/** Finds keys written in one case throughout, by the folded form that is also stored for every decoy. */
function* collectFolded(text: string, found: Set<string>, budget: WorkBudget): Slices<void> {
  // Only ASCII letters: others may change length with their case, which would shift the text after them.
  const lower = text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase())
  const add = (place: number, value: string): void => {
    const written = text.slice(place, place + value.length)
    if (written === value || written === value.toUpperCase()) found.add(foldedForm(value))
  }
  for (const { mark, before, folded } of keyFormats) {
    const foldedMark = mark.toLowerCase()
    for (let place = lower.indexOf(foldedMark); place !== -1; place = lower.indexOf(foldedMark, place + 1)) {
      // A two-letter mark occurs many times inside hexadecimal text.
      if (mark.length < 3 && /[a-z0-9]/.test(lower[place - 1] ?? '')) continue
      if (!budget.take(unitsOfPlace)) return
      folded.lastIndex = place - before
      const value = place >= before ? folded.exec(lower)?.[0] : undefined
      if (value !== undefined) add(place - before, value)
      if (budget.isSliceOver()) yield
    }
  }
  for (const { text: run, start } of runsOf(lower, tokenLetters, tokenLengths[0])) {
    if (tokenLengths.some((length) => length === run.length) && isMixedFolded(run)) add(start, run)
  }
  for (const { text: run, start } of runsOf(lower, awsLetters, awsSecretLength)) {
    if (run.length === awsSecretLength && isMixedFolded(run)) add(start, run)
  }
}

const tokenLetters = alphabet(/[A-Za-z0-9]/)
const awsLetters = alphabet(/[A-Za-z0-9+/]/)

function collectTokens(text: string, certain: Set<string>, doubtful: Set<string>): void {
  for (const { text: run } of runsOf(text, tokenLetters, tokenLengths[0])) {
    const token = /^0x/i.test(run) && isHex(run.slice(2)) ? run.slice(2) : run
    for (const length of tokenLengths) {
      if (token.length === length) addToken(token, certain)
      else for (const cut of cuts(token, length)) addToken(cut, doubtful)
    }
  }
}

/** With up to this many characters glued to a bare token, every offset is tried; with more, only both ends. */
const maxGlued = 8

function cuts(run: string, length: number): string[] {
  const excess = run.length - length
  if (excess < 0) return []
  const inner = excess <= maxGlued ? Array.from({ length: excess }, (_, start) => run.slice(start, start + length)) : []
  return [run.slice(0, length), run.slice(-length), ...inner]
}

function addToken(token: string, found: Set<string>): void {
  if (isHex(token)) found.add(token.toLowerCase())
  else if (isMixed(token)) found.add(token)
}

/** An AWS secret may contain `/`, but in a path `/` also ends it, so each run is also cut at every `/`. */
function collectAwsSecrets(text: string, certain: Set<string>, doubtful: Set<string>): void {
  for (const { text: run } of runsOf(text, awsLetters, awsSecretLength)) {
    if (run.length === awsSecretLength) addSecret(run, certain)
    else {
      for (const cut of cuts(run, awsSecretLength)) addSecret(cut, doubtful)
      for (let slash = run.indexOf('/'); slash !== -1; slash = run.indexOf('/', slash + 1)) {
        const end = slash + 1 + awsSecretLength
        if (end === run.length || run[end] === '/') addSecret(run.slice(slash + 1, end), doubtful)
      }
    }
  }
}

function addSecret(secret: string, found: Set<string>): void {
  if (/^[A-Za-z0-9].*[A-Za-z0-9]$/.test(secret) && isMixed(secret)) found.add(secret)
}
