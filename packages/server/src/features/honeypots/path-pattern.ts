import { canonicalPath } from './canonical-path.ts'
import { decoyPathKeys, maxPathBytes } from './path-forms.ts'

/** Alternatives of a decoy pattern, each a list of names in which `*`, `?` and a whole `**` are wildcards. */
interface PathPattern {
  alternatives: string[][]
}

const maxWildcards = 16

/** True when the path covers more than itself: wildcards, or a trailing slash for all that lies in a folder. */
export function isPathPattern(path: string): boolean {
  return endsInSlash(path) || canonicalPath(path).names.some(hasWildcard)
}

/**
 * Null when `path` can be a decoy, else one sentence for the person who registers it. A pattern must name at least two
 * things literally, since a broad one turns everyday work into alarms.
 */
export function validatePathPattern(path: string): string | null {
  if (path.trim() === '') return 'The path is empty.'
  if (Buffer.byteLength(path) > maxPathBytes) return `The path is longer than ${maxPathBytes} bytes.`
  if (/[\0-\x1f\x7f]/.test(path)) return 'The path contains a control character.'
  const { names } = canonicalPath(path)
  if (names.length === 0) return 'The path names a whole disk or home folder; name a file or a folder in it.'
  if (names.some((name) => name.includes('**') && name !== '**')) {
    return 'Two asterisks stand for whole folders; write them between slashes, as in keys/**/id_rsa.'
  }
  if (names.join('').split(/[*?]/).length - 1 > maxWildcards) {
    return `The pattern has more than ${maxWildcards} wildcards.`
  }
  if (isPathPattern(path) && !isSpecific(patternKeys(path)[0]!.split('/'))) {
    return 'The pattern is too broad; name at least two folders or files in it, as in ~/.aws/credentials*.'
  }
  return null
}

/** Compiles a pattern, or an exact path, that `validatePathPattern` accepts. */
export function compilePathPattern(path: string): PathPattern {
  const [own, ...others] = patternKeys(path)
  // The shorter readings for relative questions count only where they are still specific.
  const kept = others.filter((key) => isRooted(key) || isSpecific(key.split('/')))
  return { alternatives: [own!, ...kept].map((key) => key.split('/')) }
}

function patternKeys(path: string): string[] {
  return decoyPathKeys(endsInSlash(path) ? `${path}/**` : path)
}

function endsInSlash(path: string): boolean {
  return /[/\\]$/.test(path.trimEnd())
}

function isRooted(key: string): boolean {
  return /^(?:\/|~|[a-z]:)/.test(key)
}

/** Letters and signs that a name with a wildcard must show to count as literal. */
const minLiteral = 4
/** A lone name with a wildcard must be more specific than that: `*.keychain-db`, not `*.json`. */
const minLoneLiteral = 8

function isSpecific(names: readonly string[]): boolean {
  const own = names.filter((name) => name !== '' && name !== '**' && !/^(?:~\+?|[a-z]:)$/.test(name))
  if (own.length === 1 && names.length === 2 && names[0] === '**') return literalLength(own[0]!) >= minLoneLiteral
  return own.filter((name) => !hasWildcard(name) || literalLength(name) >= minLiteral).length >= 2
}

export function hasWildcard(name: string): boolean {
  return /[*?]/.test(name)
}

export function literalLength(name: string): number {
  return name.replace(/[*?]/g, '').length
}

/**
 * Compares name by name; only the latest `**` is ever reconsidered, since an earlier one can gain nothing by taking
 * more. That bounds the work by the product of both lengths, whatever the pattern.
 */
export function matchesNames(pattern: readonly string[], names: readonly string[]): boolean {
  return matchesGreedily(pattern, names, '**', matchesName)
}

function matchesName(pattern: string, name: string): boolean {
  if (!hasWildcard(pattern)) return pattern === name
  return matchesGreedily([...pattern], [...name], '*', (expected, found) => expected === '?' || expected === found)
}

function matchesGreedily(
  pattern: readonly string[],
  items: readonly string[],
  anyNumber: string,
  matchesOne: (expected: string, found: string) => boolean,
): boolean {
  let expected = 0
  let found = 0
  let lastStar = -1
  let taken = 0
  while (found < items.length) {
    if (pattern[expected] === anyNumber) {
      lastStar = expected++
      taken = found
    } else if (expected < pattern.length && matchesOne(pattern[expected]!, items[found]!)) {
      expected++
      found++
    } else if (lastStar >= 0) {
      expected = lastStar + 1
      found = ++taken
    } else return false
  }
  while (pattern[expected] === anyNumber) expected++
  return expected === pattern.length
}
