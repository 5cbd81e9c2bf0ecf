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

/** Parses hosts(5). Returns the addresses by name in lower case. */
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

/** Search options of resolv.conf(5). */
interface Search {
  domains: string[]
  /** A name with at least this many dots is first looked up without a search domain. */
  ndots: number
}

/** Bounds the queries per name. glibc before 2.26 uses six domains (resolv.conf(5)). */
const maxDomains = 10
const maxNdots = 15

/** Parses resolv.conf(5). The last `domain` or `search` line takes precedence. */
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

/** Returns a reader that parses the file again after it has changed. A missing file is read as empty. */
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

/** Returns the names to query, in order (resolv.conf(5)). A name that ends with a dot gets no search domain. */
export function candidatesOf(name: string, { domains, ndots }: Search): string[] {
  if (name.endsWith('.')) return [name.slice(0, -1)]
  const completed = domains.map((domain) => `${name}.${domain}`)
  const dots = name.split('.').length - 1
  return dots >= ndots ? [name, ...completed] : [...completed, name]
}
