import { hostOf } from './host-of.ts'
import { toolTable } from './tool-table.ts'

/** Limits of what is read of a call: an agent's arguments may be of any size. */
export const maxTextLength = 64 * 1024
const maxPathLength = 4_096
/** Paths, notable paths and hosts that are kept, each; the event has fewer. */
const maxFound = 200

const notable = toolTable.paths.notable.split(' ')
export const fewDigits = /^[0-9]{1,7}$/
export const hostName = /^(?:[a-z0-9_-]+\.)+[a-z0-9-]*[a-z][a-z0-9-]*$|^(?:[0-9]{1,3}\.){3}[0-9]{1,3}$|^localhost$/
export const wholePath = /^(?:\/[^/]+\/|~\/|\.\.?\/|[A-Za-z]:[\\/]|\\\\)/
export const pathSign = /[/\\]|^~|^\.[A-Za-z]|[A-Za-z0-9_]\.[A-Za-z][A-Za-z0-9]{0,11}$/
const addressStart = /^([A-Za-z][A-Za-z0-9+.-]*):\/\/([^/?#\\]*)(.*)$/s

/** The paths and hosts of a call. */
export class Findings {
  readonly #notable = new Set<string>()
  readonly #paths = new Set<string>()
  readonly hosts = new Set<string>()
  /** Whether an argument is an address on the network. */
  hasAddress = false
  /** Whether a limit left something out. */
  isCut = false

  /** Notable ones first. */
  get paths(): string[] {
    return [...this.#notable, ...this.#paths]
  }

  path(text: string): void {
    const path = text.split('\n', 1)[0]!.trim()
    if (path === '') return
    const lower = path.toLowerCase()
    const paths = notable.some((part) => lower.includes(part)) ? this.#notable : this.#paths
    if (path.length > maxPathLength) this.isCut = true
    else this.#add(paths, path)
    // A folder that another machine shares: \\\\host\\share.
    const [, shared] = /^\\\\([^\\/?]+)[\\/]/.exec(path) ?? []
    if (shared !== undefined) this.host(shared)
  }

  host(authority: string): boolean {
    const host = authority === '' ? undefined : hostOf(authority)
    if (host !== undefined) this.#add(this.hosts, host)
    return host !== undefined
  }

  #add(found: Set<string>, text: string): void {
    if (found.size < maxFound) found.add(text)
    else if (!found.has(text)) this.isCut = true
  }

  /** Whether the text is an address with a scheme, whose host or path it adds. */
  address(text: string): boolean {
    const [, scheme = '', authority = '', rest = ''] = addressStart.exec(text) ?? []
    if (scheme === '') return false
    if (scheme.toLowerCase() === 'file') this.path(rest.replace(/^\/([A-Za-z]:)/, '$1'))
    else {
      this.host(authority)
      this.hasAddress = true
    }
    return true
  }

  /** `files.example/x` and `//files/x`, but not the airport or the branch that is called `origin`. */
  addressWithoutScheme(text: string): void {
    const authority = text.replace(/^\/\//, '').replace(/[/?#\\].*$/s, '')
    const [, remote] = /^[^@:/\\]+@([^@:/\\]+):(?![0-9])/.exec(authority) ?? []
    const host = fewDigits.test(authority) ? undefined : hostOf(remote ?? authority)
    if (host === undefined) return
    if (!text.startsWith('//') && !hostName.test(host) && !/:[0-9]{1,5}$/.test(authority) && !host.includes(':')) return
    this.host(remote ?? authority)
    this.hasAddress = true
  }

  /** Adds the hosts of addresses within a text. */
  addressesIn(text: string): void {
    for (const [address] of text.matchAll(/\bhttps?:\/\/[^ \t\r\n"'<>()[\]]+/gi)) {
      if (this.isCut) return
      this.address(address)
    }
  }

  /** Adds the domains of addresses of mail, such as `Ann <ann@mail.example>, bob@mail.example`. */
  mail(text: string): void {
    for (const part of text.split(/[,;]/, maxFound)) {
      const at = part.lastIndexOf('@')
      if (at < 0) continue
      const domain = part.slice(at + 1).replace(/>.*$/s, '')
      this.host(domain.trim())
    }
  }

  patch(text: string): void {
    for (const [, path] of text.matchAll(/^(?:\*\*\* (?:Add|Update|Delete) File: |\+\+\+ b\/|--- a\/)([^\t\r\n]+)/gm)) {
      this.path(path!)
    }
  }
}
