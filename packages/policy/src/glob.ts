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

/** Characters and parts of a path that are compared: more than any file system allows. */
const maxPath = 32_768
const maxParts = 2_048

/** Parts of a path in lower case, without `.` and resolved `..`; the first is empty for an absolute path. */
function partsOf(path: string): readonly string[] | undefined {
  if (path.length > maxPath) return undefined
  const parts: string[] = []
  for (const part of path.replaceAll('\\', '/').toLowerCase().split('/')) {
    if (part === '.' || (part === '' && parts.length > 0)) continue
    if (part === '..' && parts.length > 0 && parts.at(-1) !== '..') {
      if (parts.length > 1 || parts[0] !== '') parts.pop()
    } else parts.push(part)
  }
  return parts.length > maxParts ? undefined : parts
}

let last: { path: string; parts: readonly string[] | undefined } | undefined

/** Every rule of a policy compares the same path. */
function partsOfPath(path: string): readonly string[] | undefined {
  if (last?.path !== path) last = { path, parts: partsOf(path) }
  return last.parts
}

/** Patterns are compared with every path of a call. */
const maxPatterns = 5_000
const patterns = new Map<string, readonly string[]>()

function partsOfPattern(pattern: string): readonly string[] {
  const known = patterns.get(pattern)
  if (known) return known
  if (patterns.size >= maxPatterns) patterns.clear()
  const parts = partsOf(pattern) ?? []
  patterns.set(pattern, parts)
  return parts
}

/** A home folder, as paths in it may be written. */
const homes = [['~'], ['', 'root'], ['', 'home', '*'], ['', 'users', '*']]

/**
 * Compares a path with patterns: `*` within a part, `**` for any parts. A pattern that begins with `/` is compared with the
 * whole path, `~/` with any home folder, and any other with its end: `.env` and `.ssh/**` match at any depth. Upper and
 * lower case are equal, as they are for some file systems. Unknown for a relative path that is one of a whole path in some
 * folder, and for a path that is longer than paths are.
 */
export function matchesPath(wanted: readonly string[], path: string): boolean | 'unknown' {
  const parts = partsOfPath(path)
  if (!parts) return 'unknown'
  const all = wanted.map(partsOfPattern)
  if (all.some((pattern) => matchesWhole(pattern, parts))) return true
  return all.some((pattern) => mayMatchWithin(pattern, parts)) ? 'unknown' : false
}

function matchesWhole(pattern: readonly string[], parts: readonly string[]): boolean {
  if (pattern[0] === '~') return homes.some((home) => matchesParts([...home, ...pattern.slice(1)], parts))
  return matchesParts(pattern[0] === '' ? pattern : ['**', ...pattern], parts)
}

/** Whether a relative path matches a pattern of whole paths in some working folder: `../etc/passwd` and `/etc/**`. */
function mayMatchWithin(pattern: readonly string[], parts: readonly string[]): boolean {
  const isWhole = pattern[0] === '' || pattern[0] === '~'
  if (!isWhole || parts[0] === '' || parts[0] === pattern[0]) return false
  const from = parts.findIndex((part) => part !== '..' && part !== '~')
  const rest = from < 0 ? [] : parts.slice(from)
  return pattern.some((part, at) => at > 0 && !/^\*+$/.test(part) && matchesParts(pattern.slice(at), rest))
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

/** Characters of an address that are read. */
const maxAddress = 8_192
const scheme = /^(?:[a-z][a-z0-9+.-]*:[\\/]+|[\\/]{2,})/i
const ipv4 = /^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}$/

/** Hosts of short texts: every rule of a policy reads the same ones. */
const hosts = new Map<string, string | undefined>()
const maxHosts = 2_000
const maxKept = 256

/**
 * Returns the host of an address, a mail address or a host name in lower case; undefined if the text is none of them, and
 * where programs read different hosts in it.
 */
export function hostOf(text: string): string | undefined {
  if (text.length > maxKept) return readHost(text)
  if (!hosts.has(text)) {
    if (hosts.size >= maxHosts) hosts.clear()
    hosts.set(text, readHost(text))
  }
  return hosts.get(text)
}

function readHost(text: string): string | undefined {
  const trimmed = text.trim()
  const begin = scheme.exec(trimmed)?.[0]
  if (begin !== undefined) {
    const rest = trimmed.slice(begin.length, maxAddress)
    const authority = /^[^/?#]*/.exec(rest)![0]
    if (authority.length === rest.length && trimmed.length > maxAddress) return undefined
    const [first = ''] = authority.split('\\', 1)
    // Browsers end the host at a backslash; others take it for a part of the user's name.
    return authority.slice(first.length).includes('@') ? undefined : hostName(first.slice(first.lastIndexOf('@') + 1))
  }
  if (trimmed.length > maxAddress) return undefined
  const address = bareAddress(trimmed)?.replace(/^mailto:/i, '')
  if (address === undefined) return undefined
  const at = address.indexOf('@')
  if (at < 0) return hostName(/^[^\\/?#]*/.exec(address)![0])
  const isMail = at === address.lastIndexOf('@') && !/[\s,;<>()]/.test(address)
  return isMail ? hostName(address.slice(at + 1)) : undefined
}

/** The address in `Ada <ada@example.com>`; undefined if there may be others before it. */
function bareAddress(text: string): string | undefined {
  if (!text.endsWith('>')) return text
  const begin = text.lastIndexOf('<')
  let isQuoted = false
  for (let at = 0; at < begin; at++) {
    const sign = text[at]!
    if (isQuoted && sign === '\\') at += 1
    else if (sign === '"') isQuoted = !isQuoted
    else if (!isQuoted && /[@,;<>]/.test(sign)) return undefined
  }
  return begin < 0 || isQuoted ? undefined : text.slice(begin + 1, -1).trim()
}

/** Returns a host as resolvers take it; undefined if it is none, or written in a form that others read differently. */
function hostName(text: string): string | undefined {
  const host = text.replace(/:\d+$/, '').normalize('NFKC').toLowerCase().replaceAll('\u3002', '.').replace(/\.$/, '')
  if (host.startsWith('[')) {
    // The same address can be written with zeros, or as one of IPv4.
    return /^\[[0-9a-f:]+\]$/.test(host) && !/(?:^\[|:)0|ffff|ff9b/.test(host) ? host : undefined
  }
  if (!/^[\p{L}\p{N}_-]+(?:\.[\p{L}\p{N}_-]+)*$/u.test(host)) return undefined
  const last = host.slice(host.lastIndexOf('.') + 1)
  if (/^(?:\d+|0x[0-9a-f]*)$/.test(last)) return ipv4.test(host) ? host : undefined
  return host.includes('.') || host === 'localhost' ? host : undefined
}

/** Splits a list of mail addresses. An address of a page is one, whatever is in it. */
export function addressesIn(text: string): string[] {
  if (!text.includes('@') || !/[,;\n]/.test(text) || scheme.test(text.trim())) return [text]
  return splitList(text, true) ?? splitList(text, false)!
}

/** Splits at commas, semicolons and line feeds, outside of quotes; undefined if quotes are not closed. */
function splitList(text: string, hasQuotes: boolean): string[] | undefined {
  const parts: string[] = []
  let from = 0
  let isQuoted = false
  for (let at = 0; at < text.length; at++) {
    const sign = text[at]!
    if (isQuoted && sign === '\\') at += 1
    else if (hasQuotes && sign === '"') isQuoted = !isQuoted
    else if (!isQuoted && (sign === ',' || sign === ';' || sign === '\n')) {
      parts.push(text.slice(from, at))
      from = at + 1
    }
  }
  if (isQuoted) return undefined
  return [...parts, text.slice(from)].filter((part) => part.trim() !== '')
}

/** Compares a host with a name, or with `*.example.com` for the hosts below one. */
export const matchesHost = (pattern: string, host: string): boolean =>
  pattern.startsWith('*.') ? host.endsWith(pattern.slice(1)) : matchesGlob(pattern, host)
