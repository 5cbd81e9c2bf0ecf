import { canonicalPath } from './canonical-path.ts'
import { decoyPathKeys, maxPathBytes } from './path-forms.ts'

/** Alternatives of a decoy pattern, each a list of names in which `*`, `?` and a whole `**` are wildcards. */
interface PathPattern {
  alternatives: string[][]
}

const maxWildcards = 16

/** Whether a path covers more than itself: it has wildcards, or a trailing slash for everything in a folder. */
export function isPathPattern(path: string): boolean {
  return endsInSlash(path) || canonicalPath(path).names.some(hasWildcard)
}

/**
 * Returns null if `path` can be a decoy, else one sentence for the person who registers it. A pattern must contain at
 * least two literal names (or one long name), because a broad pattern raises alarms on everyday work.
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
  // Shorter alternatives, for relative paths, count only while they are specific.
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

/** Minimum number of literal characters for a name with a wildcard to count as literal. */
const minLiteral = 4
/** Minimum for a pattern of one name: `*.keychain-db` is accepted, `*.json` is not. */
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
 * Compares name by name. Backtracks only to the latest `**`, because extending an earlier one cannot help. This bounds
 * the work by the product of both lengths, whatever the pattern.
 */
export function matchesNames(
  pattern: readonly string[],
  names: readonly string[],
  matchesOne: (pattern: string, name: string) => boolean = matchesName,
): boolean {
  return matchesGreedily(pattern, names, '**', matchesOne)
}

export function matchesName(pattern: string, name: string): boolean {
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
