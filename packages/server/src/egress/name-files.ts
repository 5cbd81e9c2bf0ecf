import { readFile, stat } from 'node:fs/promises'
import { isIP } from 'node:net'

export const systemHostsFile =
  process.platform === 'win32' ? 'C:\\Windows\\System32\\drivers\\etc\\hosts' : '/etc/hosts'
export const systemResolvConf = '/etc/resolv.conf'

const linesOf = (text: string): string[][] =>
  text.split('\n').map((line) =>
    line
      .replace(/[#;].*/, '')
      .split(/\s+/)
      .filter((word) => word !== ''),
  )

/** Addresses by name, in lower case, as hosts(5) writes them. */
export function parseHosts(text: string): Map<string, string[]> {
  const addresses = new Map<string, string[]>()
  for (const [address = '', ...names] of linesOf(text)) {
    if (isIP(address) === 0) continue
    for (const name of names.map((given) => given.toLowerCase())) {
      addresses.set(name, [...(addresses.get(name) ?? []), address])
    }
  }
  return addresses
}

/** How names are completed, as resolv.conf(5) writes it. */
interface Search {
  domains: string[]
  /** A name with so many dots is first looked up as it is. */
  ndots: number
}

/** Older systems read six; with more, look-ups outnumber addresses. */
const maxDomains = 10
const maxNdots = 15

/** Of `domain` and `search` the last one counts. */
export function parseSearch(text: string): Search {
  const search: Search = { domains: [], ndots: 1 }
  for (const [keyword, ...words] of linesOf(text)) {
    if (keyword === 'search' || keyword === 'domain') {
      const named = keyword === 'domain' ? words.slice(0, 1) : words
      search.domains = named
        .map((word) => word.replace(/\.$/, ''))
        .filter((word) => word !== '')
        .slice(0, maxDomains)
    }
    const ndots = keyword === 'options' ? words.find((word) => /^ndots:\d+$/.test(word)) : undefined
    if (ndots !== undefined) search.ndots = Math.min(maxNdots, Number(ndots.slice('ndots:'.length)))
  }
  return search
}

/** What a file says, read again when it changed. A file that is missing says nothing. */
export function watchedFile<Content>(path: string, parse: (text: string) => Content): () => Promise<Content> {
  let known: { mark: string; content: Content } | undefined
  return async () => {
    const found = await stat(path).catch(() => undefined)
    const mark = found === undefined ? '' : `${found.mtimeMs} ${found.size} ${found.ino}`
    if (known?.mark !== mark) {
      const text = found === undefined ? '' : await readFile(path, 'utf8').catch(() => '')
      known = { mark, content: parse(text) }
    }
    return known.content
  }
}

/** What to ask for, in this order (resolv.conf(5)): a name that ends with a dot is complete. */
export function candidatesOf(name: string, { domains, ndots }: Search): string[] {
  if (name.endsWith('.')) return [name.slice(0, -1)]
  const completed = domains.map((domain) => `${name}.${domain}`)
  const dots = name.split('.').length - 1
  return dots >= ndots ? [name, ...completed] : [...completed, name]
}
