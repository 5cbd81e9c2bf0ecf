/** Compares text with a pattern in which `*` stands for any characters. Both in lower case. Takes linear time. */
export function matchesGlob(pattern: string, text: string): boolean {
  const parts = pattern.split('*')
  if (parts.length === 1) return pattern === text
  const [first] = parts
  const last = parts.at(-1)!
  if (!text.startsWith(first!) || !text.endsWith(last) || text.length < first!.length + last.length) return false
  let at = first!.length
  const end = text.length - last.length
  for (const part of parts.slice(1, -1)) {
    const found = text.indexOf(part, at)
    if (found < 0 || found + part.length > end) return false
    at = found + part.length
  }
  return true
}

/** Maximum number of parts of a path that are compared: deeper than any file system allows in one path. */
const maxParts = 2_048

/** Parts of a path in lower case, without `.` and resolved `..`; the first is empty for an absolute path. */
function partsOf(path: string): string[] {
  const parts: string[] = []
  for (const part of path.replaceAll('\\', '/').toLowerCase().split('/').slice(0, maxParts)) {
    if (part === '.' || (part === '' && parts.length > 0)) continue
    if (part === '..' && parts.length > 0 && parts.at(-1) !== '..') {
      if (parts.length > 1 || parts[0] !== '') parts.pop()
    } else parts.push(part)
  }
  return parts
}

/** Parts of the patterns of policies, of which there are few. */
const patternParts = new Map<string, readonly string[]>()
const maxPatterns = 2_000

function partsOfPattern(pattern: string): readonly string[] {
  const known = patternParts.get(pattern)
  if (known) return known
  if (patternParts.size >= maxPatterns) patternParts.clear()
  const parts = partsOf(pattern)
  patternParts.set(pattern, parts)
  return parts
}

/** A home folder, as paths in it may be written. */
const homes = [['~'], ['', 'root'], ['', 'home', '*'], ['', 'users', '*']]

/**
 * Compares a path with a pattern: `*` within a part, `**` for any parts. A pattern that begins with `/` is compared with the
 * whole path, `~/` with any home folder, and any other with its end: `.env` and `.ssh/**` match at any depth. Upper and
 * lower case are equal, as they are for some file systems.
 */
export function matchesPath(pattern: string, path: string): boolean {
  const parts = partsOf(path)
  const wanted = partsOfPattern(pattern)
  if (wanted[0] === '~') return homes.some((home) => matchesParts([...home, ...wanted.slice(1)], parts))
  return matchesParts(wanted[0] === '' ? wanted : ['**', ...wanted], parts)
}

/** Greedy with one point to return to, as `**` needs: one step for each pair of parts at the worst. */
function matchesParts(pattern: readonly string[], parts: readonly string[]): boolean {
  let at = 0
  let seen = 0
  let wildcard = -1
  let from = 0
  while (seen < parts.length) {
    if (pattern[at] === '**') {
      wildcard = at++
      from = seen
    } else if (at < pattern.length && matchesGlob(pattern[at]!, parts[seen]!)) {
      at++
      seen++
    } else if (wildcard >= 0) {
      at = wildcard + 1
      seen = ++from
    } else return false
  }
  while (pattern[at] === '**') at++
  return at === pattern.length
}

/** Returns the host of an address, a mail address or a host name in lower case; undefined if the text is none of them. */
export function hostOf(text: string): string | undefined {
  const bracketed = /<([^<>]*)>\s*$/.exec(text)?.[1] ?? text
  const rest = bracketed.trim().replace(/^(?:mailto:|[a-z][a-z0-9+.-]*:[\\/]+|[\\/]{2,})/i, '')
  const authority = /^[^\\/?#]*/.exec(rest)![0]
  const [, host] = /^(?:.*@)?(\[[0-9a-f:.]+\]|[^:@\s]+)(?::\d+)?$/is.exec(authority) ?? []
  const name = host?.toLowerCase().replace(/\.$/, '')
  return name !== undefined && /[.:]|^localhost$/.test(name) ? name : undefined
}

/** Compares a host with a name, or with `*.example.com` for the hosts below one. */
export const matchesHost = (pattern: string, host: string): boolean =>
  pattern.startsWith('*.') ? host.endsWith(pattern.slice(1)) : matchesGlob(pattern, host)
