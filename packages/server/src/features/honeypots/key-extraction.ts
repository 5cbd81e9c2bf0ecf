import { MAX_READING_LENGTH, readings } from './key-decoding.ts'
import { AWS_SECRET_LENGTH, holdsOneMark, isHex, isMixed, KEY_FORMATS, TOKEN_LENGTHS } from './key-formats.ts'

/** Characters of a submitted text that are searched. A caller that must miss nothing refuses longer ones. */
export const MAX_KEY_INPUT_LENGTH = MAX_READING_LENGTH

/**
 * Most texts returned for one input. The shortest shape has 20 characters and two finds share at most a mark, so even
 * 64 KiB of nothing but key-shaped filler cannot fill it with certain finds and push a decoy out.
 */
export const MAX_KEY_CANDIDATES = 4096

/** How many encodings may lie on top of each other, and how many characters of readings are searched in all. */
const MAX_DEPTH = 4
const MAX_SEARCHED_LENGTH = 32 * MAX_READING_LENGTH

/**
 * Every text inside `input` that could be a decoy, in the canonical form that decoys are fingerprinted by: the caller
 * looks each one up. `input` is anything an agent was about to use: a key, a header, a line of an env file, JSON, a
 * URL, a command, encoded or not. Certain finds (the whole text, shapes with a mark, tokens that stand alone) of all
 * readings come before doubtful ones (bare tokens cut out of a longer run). Work is linear in the input.
 */
export function keyCandidates(input: string): string[] {
  const certain = new Set<string>()
  const doubtful = new Set<string>()
  const text = input.slice(0, MAX_KEY_INPUT_LENGTH)
  for (const form of wholeForms(text)) certain.add(form)
  for (const reading of allReadings(text)) {
    collectMarkedKeys(reading, certain)
    collectTokens(reading, certain, doubtful)
    collectAwsSecrets(reading, certain, doubtful)
  }
  for (const candidate of doubtful) certain.add(candidate)
  return [...certain].slice(0, MAX_KEY_CANDIDATES)
}

/** The text and what its decodings yield, nearest first, so that deep nesting never uses up a shallow one's share. */
function allReadings(text: string): Set<string> {
  const seen = new Set([text])
  let searched = text.length
  let layer = [text]
  for (let depth = 0; depth < MAX_DEPTH; depth++) {
    const next: string[] = []
    for (const outer of layer) {
      for (const reading of readings(outer)) {
        if (seen.has(reading) || searched + reading.length > MAX_SEARCHED_LENGTH) continue
        searched += reading.length
        seen.add(reading)
        next.push(reading)
      }
    }
    layer = next
  }
  return seen
}

const ASSIGNMENT = /^(?:export\s|set\s)?\s*["']?[A-Za-z_][\w.-]{0,99}["']?\s?[=:]\s?/
const SCHEME = /^(?:bearer|basic|token|apikey)\s/i

/** The text as submitted, and what is left of it without an assignment, a header's scheme, quotes. */
function wholeForms(text: string): string[] {
  const trimmed = text.trim()
  const value = trimmed.replace(ASSIGNMENT, '').trim()
  const bare = value.replace(SCHEME, '').trim()
  return [trimmed, value, bare, unquoted(trimmed), unquoted(value), unquoted(bare)].filter((form) => form !== '')
}

function unquoted(text: string): string {
  return text.replace(/^["'`]/, '').replace(/["'`][,;]?$/, '')
}

function collectMarkedKeys(text: string, found: Set<string>): void {
  for (const { mark, before, shape, isGenuine } of KEY_FORMATS) {
    for (let place = text.indexOf(mark); place !== -1; place = text.indexOf(mark, place + 1)) {
      shape.lastIndex = place - before
      const value = place >= before ? shape.exec(text)?.[0] : undefined
      if (value !== undefined && holdsOneMark(value, before) && isGenuine?.(value) !== false) found.add(value)
    }
  }
}

function collectTokens(text: string, certain: Set<string>, doubtful: Set<string>): void {
  for (const [run] of text.matchAll(/[A-Za-z0-9]{32,}/g)) {
    const token = /^0x/i.test(run) && isHex(run.slice(2)) ? run.slice(2) : run
    for (const length of TOKEN_LENGTHS) {
      if (token.length === length) addToken(token, certain)
      else for (const cut of cuts(token, length)) addToken(cut, doubtful)
    }
  }
}

/** Up to this many characters glued to a bare token are tried at every place; behind more, only both ends are. */
const MAX_GLUED = 8

function cuts(run: string, length: number): string[] {
  const excess = run.length - length
  if (excess < 0) return []
  const inner =
    excess <= MAX_GLUED ? Array.from({ length: excess }, (_, start) => run.slice(start, start + length)) : []
  return [run.slice(0, length), run.slice(-length), ...inner]
}

function addToken(token: string, found: Set<string>): void {
  if (isHex(token)) found.add(token.toLowerCase())
  else if (isMixed(token)) found.add(token)
}

/** An AWS secret may hold `/`, which also ends it inside a path, so a run is cut at each `/` as well. */
function collectAwsSecrets(text: string, certain: Set<string>, doubtful: Set<string>): void {
  for (const [run] of text.matchAll(/[A-Za-z0-9+/]{40,}/g)) {
    if (run.length === AWS_SECRET_LENGTH) addSecret(run, certain)
    else {
      for (const cut of cuts(run, AWS_SECRET_LENGTH)) addSecret(cut, doubtful)
      for (let slash = run.indexOf('/'); slash !== -1; slash = run.indexOf('/', slash + 1)) {
        const end = slash + 1 + AWS_SECRET_LENGTH
        if (end === run.length || run[end] === '/') addSecret(run.slice(slash + 1, end), doubtful)
      }
    }
  }
}

function addSecret(secret: string, found: Set<string>): void {
  if (/^[A-Za-z0-9].*[A-Za-z0-9]$/.test(secret) && isMixed(secret)) found.add(secret)
}
