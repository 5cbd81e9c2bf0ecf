import type { Slices, WorkBudget } from '../../work-turns.ts'
import { maxReadingLength, readings } from './key-decoding.ts'
import {
  awsSecretLength,
  foldedForm,
  holdsOneMark,
  isHex,
  isMixed,
  isMixedFolded,
  keyFormats,
  tokenLengths,
} from './key-formats.ts'

/** Maximum number of characters searched. A caller that must miss nothing rejects longer texts. */
export const maxKeyInputLength = maxReadingLength

/**
 * Maximum number of candidates per input. The shortest shape has 20 characters and two finds share at most a mark, so
 * even 64 KiB of key-shaped filler has too few certain finds to push a decoy out.
 */
export const maxKeyCandidates = 8192

/** Maximum number of nested encodings. */
const maxDepth = 4
/** Number of layers whose readings are also searched backwards. */
const reversedDepth = 2
/**
 * Cost of searching a reading for all shapes: per character, per occurrence of a mark, per text with the shape of a
 * key.
 */
const unitsOfSearch = 15
const unitsOfPlace = 300
const unitsOfFind = 1_000

/**
 * Finds every text inside `input` that could be a decoy, in the canonical form in which decoys are fingerprinted; the
 * caller looks each one up. `input` is anything an agent was about to use: a key, a header, a line of an env file,
 * JSON, a URL, a command, encoded or not. Certain finds (the whole text, shapes with a mark, tokens that stand alone)
 * of all readings come before doubtful ones (bare tokens cut out of a longer run). Work is linear in the input.
 * Searches that the budget does not cover are skipped, those of deeper encodings first.
 */
export function* keyCandidates(input: string, budget: WorkBudget): Slices<string[]> {
  const certain = new Set<string>()
  const doubtful = new Set<string>()
  const folded = new Set<string>()
  const text = input.slice(0, maxKeyInputLength)
  for (const form of wholeForms(text)) certain.add(form)
  const seen = new Set([text])
  const backward = new Set<string>()
  let layer = [text]
  for (let depth = 0; depth <= maxDepth; depth++) {
    const next: string[] = []
    for (const reading of layer) {
      if (!budget.take(reading.length * unitsOfSearch)) continue
      yield* collectMarkedKeys(reading, certain, budget)
      // Skip tokens cut out of longer runs in reversed text: any encoded picture would yield thousands.
      const cut = backward.has(reading) ? new Set<string>() : doubtful
      collectTokens(reading, certain, cut)
      collectAwsSecrets(reading, certain, cut)
      if (budget.isSliceOver()) yield
      yield* collectFolded(reading, folded, budget)
      if (depth === maxDepth) continue
      const further = yield* readings(reading, budget)
      if (depth < reversedDepth) {
        further.push(reversed(reading))
        backward.add(further.at(-1)!)
      }
      for (const other of further) {
        if (seen.has(other)) continue
        seen.add(other)
        next.push(other)
      }
    }
    layer = next
  }
  const found = [...new Set([...certain, ...doubtful, ...folded])]
  if (found.length > maxKeyCandidates) budget.exhaust()
  return found.slice(0, maxKeyCandidates)
}

function reversed(text: string): string {
  return Buffer.from(text, 'latin1').reverse().toString('latin1')
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
  for (const { 0: run, index } of lower.matchAll(/[a-z0-9]{32,}/g)) {
    if (tokenLengths.some((length) => length === run.length) && isMixedFolded(run)) add(index, run)
  }
  for (const { 0: run, index } of lower.matchAll(/[a-z0-9+/]{40,}/g)) {
    if (run.length === awsSecretLength && isMixedFolded(run)) add(index, run)
  }
}

function collectTokens(text: string, certain: Set<string>, doubtful: Set<string>): void {
  for (const [run] of text.matchAll(/[A-Za-z0-9]{32,}/g)) {
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
  for (const [run] of text.matchAll(/[A-Za-z0-9+/]{40,}/g)) {
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
