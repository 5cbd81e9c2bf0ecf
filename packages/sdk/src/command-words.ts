import { type Findings, fewDigits, hostName, maxTextLength, pathSign, wholePath } from './call-findings.ts'
import { isSecretName } from './credentials.ts'
import { hostOf } from './host-of.ts'
import { toolTable } from './tool-table.ts'

/** Words of commands that are looked at. */
const maxWords = 5_000

const setOf = (names: string): ReadonlySet<string> => new Set(names.split(' '))
const { programs } = toolTable
const startingPrograms = setOf(programs.starting)
const filePrograms = setOf(programs.files)
const networkPrograms = setOf(programs.network)
const reachingPrograms = setOf(programs.reaching)
const copyingPrograms = setOf(programs.copying)
const fileOptions = setOf(programs.fileOptions)
const flags = setOf(programs.flags)

// Character classes without \s and \d: the Python client has the same expressions, where these mean more.
/** What stands before a value in a word: `--data=`, `NAME=`, or an option such as -d right before a path. */
const beforeValue = /^(?:--?[A-Za-z0-9_-]+=|[A-Za-z_][A-Za-z0-9_]*=|-[A-Za-z](?=[@./~]))/
/** Short options of the programs that reach hosts, after which no value follows. */
const plainFlags = /^-[046#ACGIJLNRSTYafgjknqstvxy]+$/
const variable =
  /(?:^|[ \t\r\n;&|(])([A-Za-z_][A-Za-z0-9_]*)=(?:"([^"$`\\]*)"|'([^']*)'|([^ \t\r\n;&|()<>"'$`]+))|\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))/g

/** A program of a command, as far as its words are read differently. */
interface Program {
  name: string
  hasFiles: boolean
  hasNetwork: boolean
  isCopying: boolean
}

const programOf = (name: string): Program => ({
  name,
  hasFiles: filePrograms.has(name),
  hasNetwork: networkPrograms.has(name),
  isCopying: copyingPrograms.has(name),
})

/** The words of a command that is passed as a list, within the limits of one that is a text. */
export function commandLine(parts: readonly string[]): string {
  let line = ''
  for (const part of parts.slice(0, maxWords)) {
    if (line.length > maxTextLength) break
    line += `${line === '' ? '' : ' '}${part.slice(0, maxTextLength)}`
  }
  return line.slice(0, maxTextLength)
}

/** Puts the values of variables in their places that the same command sets to a plain text: `H=a.example; curl $H`. */
function withVariables(text: string): string {
  const values = new Map<string, string>()
  let room = maxTextLength
  return text.replace(variable, (whole, name?: string, ...groups: (string | undefined)[]) => {
    const [double, single, bare, braced, plain] = groups
    const value = values.get(braced ?? plain ?? '')
    // A secret in its place would be a word like others.
    if (name !== undefined && !isSecretName(name)) values.set(name, double ?? single ?? bare ?? '')
    if (value === undefined || value.length > room) return whole
    room -= value.length
    return value
  })
}

/** Finds files and hosts in commands. */
export class CommandReader {
  readonly #found: Findings
  #words = 0
  /** Hosts found so far, also known ones. */
  #hosts = 0

  constructor(found: Findings) {
    this.#found = found
  }

  read(text: string): void {
    // A line goes on after a backslash, in PowerShell after a backtick.
    const lines = withVariables(text.replace(/[\\`]\r?\n/g, ' '))
    // A command in the arguments of another is read after it, so that the rest of these stay arguments.
    const inner: string[] = []
    const outer = lines.replace(/\$\(([^()]*)\)|`([^`]*)`/g, (_, one?: string, other?: string) => {
      inner.push(one ?? other ?? '')
      return '_'
    })
    for (const simple of [outer, ...inner].join('\n').split(/[;|&\r\n()`]+/)) {
      // A file follows < and >, but neither <<, => nor ->.
      const marked = simple.replace(/<{2,3}-?|[=-]>|[<>]/g, (sign) => (sign.length === 1 ? ' < ' : ' '))
      this.#simpleCommand(marked.split(/[ \t\f\v"']+/))
      if (this.#words > maxWords) {
        this.#found.isCut = true
        return
      }
    }
  }

  /** Reads a program with its arguments, up to the limit of words. */
  #simpleCommand(parts: readonly string[]): void {
    let [isProgram, isStarted] = [true, false]
    let program = programOf('')
    let before = ''
    const hosts = this.#hosts
    /** Place after the program, and its first and last argument that can be a host of one label. */
    let after = 0
    let first: string | undefined
    let last: string | undefined
    for (const [at, part] of parts.entries()) {
      this.#words += 1
      if (this.#words > maxWords) return
      const [option = ''] = beforeValue.exec(part) ?? []
      const value = part.slice(option.length)
      const word = value.replace(/^@/, '')
      if (part === '-exec') isProgram = true
      if (word !== '' && word !== '<' && !word.startsWith('-')) {
        const name = word
          .toLowerCase()
          .replace(/^.*[/\\]/s, '')
          .replace(/\.exe$/, '')
        const starts = isProgram && (startingPrograms.has(name) || /^[0-9]+[a-z]?$/.test(word))
        const isOther = isStarted && !program.hasFiles && !program.hasNetwork && networkPrograms.has(name)
        if (starts) isStarted = true
        else if ((isProgram || isOther) && word === part && before !== '<') {
          isProgram = false
          program = programOf(name)
          after = at + 1
          if (!program.hasFiles && !program.hasNetwork) this.#word(word, program, { isFile: false, isHost: false })
        } else if (!isSecretWord(word, option, before, program)) {
          const named = option === '' ? before : option.replace(/=$/, '')
          const isOfOption = fileOptions.has(named) && !flags.has(`${program.name}${named}`)
          const isContent = word !== value && (option !== '' || before.startsWith('-'))
          const isFile = before === '<' || isOfOption || isContent
          const isHost = /^[0-9]{1,5}$/.test(parts[at + 1] ?? '') && /^[A-Za-z][A-Za-z0-9_-]*$/.test(word)
          this.#word(word, program, { isFile, isHost })
          if (!isFile && option === '' && /^[A-Za-z][A-Za-z0-9_-]*(?:\/|$)/.test(word)) {
            last = word
            if (at === after || plainFlags.test(before) || /^[0-9]+$/.test(before)) first ??= word
          }
        }
      }
      before = part
    }
    const reached = first ?? last
    if (reached !== undefined && hosts === this.#hosts && reachingPrograms.has(program.name)) {
      this.#host(reached.replace(/\/.*$/s, ''))
    }
  }

  #host(authority: string): void {
    if (this.#found.host(authority)) this.#hosts += 1
  }

  #word(
    word: string,
    { hasFiles, hasNetwork, isCopying }: Program,
    { isFile, isHost }: { isFile: boolean; isHost: boolean },
  ): void {
    // A number of few digits is no address.
    if (word === '/dev/null' || word === '_' || fewDigits.test(word)) return
    if (this.#found.address(word)) {
      this.#hosts += 1
      return
    }
    const [, device] = /^\/dev\/(?:tcp|udp)\/([^/]+)/.exec(word) ?? []
    if (device !== undefined) {
      this.#host(device)
      return
    }
    if (!isFile && this.#remoteFile(word, hasNetwork, isCopying)) return
    if (!isFile && hasNetwork) {
      // Of socat: FILE:path and TCP:host:port.
      const [, file] = /^(?:file|open|create):([^,]+)/i.exec(word) ?? []
      if (file !== undefined) {
        this.#found.path(file)
        return
      }
      const authority = word
        .replace(/^(?:tcp|udp|ssl|openssl)[46]?(?:-connect|-sendto)?:/i, '')
        .replace(/[/?#\\,].*$/s, '')
      const host = authority === '' ? undefined : hostOf(authority)
      const isNamed = isHost || authority.includes('@') || /^[^:]*[A-Za-z][^:]*:[0-9]{1,5}$/.test(authority)
      if (host !== undefined && (isNamed || hostName.test(host))) {
        this.#host(authority)
        return
      }
    }
    if (hasFiles || isFile || pathSign.test(word)) this.#found.path(word)
  }

  /** Whether the word is a file on another host, as of scp and git: `user@host:file`. */
  #remoteFile(word: string, hasNetwork: boolean, isCopying: boolean): boolean {
    const [, user, name = '', path = ''] = /^([^@:/\\]+@)?([^@:/\\]{2,}):(?![0-9])(.*)$/s.exec(word) ?? []
    const host = name === '' || fewDigits.test(name) ? undefined : hostOf(name)
    if (host === undefined) return false
    if (user === undefined ? !isCopying : !hasNetwork && !hostName.test(host)) return false
    this.#host(name)
    this.#found.path(path.replace(/^:/, ''))
    return true
  }
}

/** Whether the word is a secret by what stands before it: `--token`, `PASSWORD=`, `Authorization: Bearer`, `-u` of curl. */
function isSecretWord(word: string, option: string, before: string, { hasFiles, hasNetwork }: Program): boolean {
  if (hasFiles || wholePath.test(word)) return false
  if (option.endsWith('=') && isSecretName(option.slice(0, -1))) return true
  if (before.startsWith('-') && !before.includes('=') && !fileOptions.has(before) && isSecretName(before)) return true
  return hasNetwork && /^(?:-u|--user|bearer|basic|[^\n]*(?:authorization|cookie|token|key|secret):)$/i.test(before)
}
