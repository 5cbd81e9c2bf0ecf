import { Findings, maxTextLength, pathSign, wholePath } from './call-findings.ts'
import { CommandReader, commandLine } from './command-words.ts'
import { isSecretName } from './credentials.ts'
import { entriesOf } from './redact.ts'
import { kindsOf, type NamedTool, namedTool } from './tool-names.ts'
import { type CallAction, toolTable } from './tool-table.ts'

/** The vocabulary of tool calls, the same whatever the tool and its arguments are called. */
export interface CallFields {
  action: CallAction
  /** Files and folders in the arguments, as they are there; those that may hold secrets first. */
  paths: string[]
  /** Names and addresses of hosts in the arguments, in lower case. */
  hosts: string[]
  /** Command line or program to execute. */
  command?: string | undefined
  /** Whether a limit left something out. */
  isCut: boolean
}

/** Values, names of arguments and texts that are looked at: an agent's arguments may be of any size. */
const maxValues = 1_000
const maxItems = 5_000
const maxDepth = 8
const maxCharacters = 4 * maxTextLength
const maxNameLength = 200

const methodNames = toolTable.arguments.method.split(' ')

// Character classes without \s and \d: the Python client has the same expressions, where these mean more.
const blanks = /[ \t\r\n\f\v]/
const writingStatement =
  /\b(?:insert[ \t\r\n]+into|update[ \t\r\n]+[^ \t\r\n]+[ \t\r\n]+set|delete[ \t\r\n]+from|replace[ \t\r\n]+into|merge[ \t\r\n]+into|truncate|grant|revoke|(?:drop|alter|create)[ \t\r\n]+(?:or[ \t\r\n]+replace[ \t\r\n]+)?(?:table|view|index|schema|database|user|role|function|procedure|trigger|extension|policy|type|sequence))\b/i

type Kinds = ReturnType<typeof kindsOf>
const noKinds: Kinds = new Set()

class Reader {
  readonly found = new Findings()
  readonly commands: string[] = []
  /** Whether an argument is SQL that changes something. */
  writes = false
  readonly #commandReader = new CommandReader(this.found)
  #values = 0
  #characters = maxCharacters
  readonly #tool: NamedTool
  readonly #mainKinds: Kinds

  constructor(tool: NamedTool, toolName: string) {
    this.#tool = tool
    this.#mainKinds = kindsOf(mainArgument(tool.action, toolName))
  }

  read(args: unknown): void {
    const [first, ...others] = Array.isArray(args) ? args.slice(0, maxValues) : [args]
    if (Array.isArray(args) && args.length > maxValues) this.found.isCut = true
    this.#visit(first, typeof first === 'string' ? this.#mainKinds : noKinds, 0)
    for (const other of others) this.#visit(other, noKinds, 0)
  }

  #visit(value: unknown, kinds: Kinds, depth: number): void {
    this.#values += 1
    if (this.#values > maxValues || depth > maxDepth) {
      this.found.isCut = true
      return
    }
    if (typeof value === 'string') {
      this.#characters -= Math.min(value.length, maxTextLength)
      if (value.length > maxTextLength || this.#characters < 0) this.found.isCut = true
      if (this.#characters >= 0) this.#text(value.slice(0, maxTextLength), kinds)
    } else if (value instanceof URL) this.#text(value.href, kinds)
    else if (Array.isArray(value)) {
      const items = value.slice(0, maxItems)
      if (this.#isCommand(kinds) && items.every((word) => typeof word === 'string')) {
        this.#visit(commandLine(items), kinds, depth + 1)
      } else {
        if (value.length > maxValues) this.found.isCut = true
        for (const item of value.slice(0, maxValues)) this.#visit(item, kinds, depth + 1)
      }
    } else if (typeof value === 'object' && value !== null) {
      const isOnly = depth === 0 && (value instanceof Map ? value.size : Object.keys(value).length) === 1
      for (const [key, item] of entriesOf(value)) {
        if (this.#values > maxValues) return
        const name = key.slice(0, 100)
        // Of secrets only what is a path with its folder is read, such as `private_key: '~/.ssh/id_rsa'`.
        if (isSecretName(name)) {
          if (typeof item === 'string') this.#visit(item, noKinds, depth + 1)
          continue
        }
        const known = kindsOf(name)
        const isMain = isOnly && typeof item === 'string' && known.size === 0
        this.#visit(item, isMain ? this.#mainKinds : known, depth + 1)
      }
    }
  }

  #isCommand(kinds: Kinds): boolean {
    if (kinds.has('command')) return !this.#tool.isByMethod
    return kinds.has('code') && this.#tool.action === 'execute'
  }

  #text(text: string, kinds: Kinds): void {
    if (this.#isCommand(kinds)) {
      this.commands.push(text)
      this.#commandReader.read(text)
      return
    }
    if (kinds.has('patch')) this.found.patch(text)
    if (kinds.has('statement') && writingStatement.test(text)) this.writes = true
    if (kinds.has('prompt') && this.#tool.action === 'request') this.found.addressesIn(text)
    const value = text.trim()
    if (blanks.test(value) && !kinds.has('path') && !kinds.has('mail')) return
    if (value === '' || this.found.address(value)) return
    if (kinds.has('path')) this.found.path(value)
    else if (kinds.has('maybePath') && pathSign.test(value)) this.found.path(value)
    else if (kinds.has('address')) this.found.addressWithoutScheme(value)
    else if (kinds.has('host')) this.found.host(value)
    else if (kinds.has('mail')) {
      if (this.#tool.action !== 'read') this.found.mail(value)
    } else if (wholePath.test(value)) this.found.path(value)
  }
}

/** Known name for an argument without one, where the tool has no other. */
function mainArgument(action: CallAction | undefined, toolName: string): string {
  switch (action) {
    case 'read':
    case 'write':
      return /file|path|dir|folder|^(?:read|write|edit|cat|ls)$/i.test(toolName) ? 'path' : 'source'
    case 'execute':
      return 'command'
    case 'request':
      return 'url'
    case 'send':
      return 'to'
    default:
      return ''
  }
}

/** Arguments that a framework passes as JSON. */
function parsedObject(text: string): object | undefined {
  if (text.length > maxTextLength || !/^[ \t\r\n]*\{/.test(text)) return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The first argument that can be the name of a method, such as `command: 'view'`. */
function methodOf(args: unknown): string | undefined {
  if (typeof args !== 'object' || args === null) return undefined
  const values: unknown[] = methodNames.map((name) => Object.getOwnPropertyDescriptor(args, name)?.value)
  return values.find(
    (value): value is string => typeof value === 'string' && /^[A-Za-z][A-Za-z0-9_-]{0,60}$/.test(value),
  )
}

/** Reads what a tool call does, and with which files and hosts. For any value; does not throw. */
export function callFields(toolName: string, params: unknown): CallFields {
  const name = toolName.slice(0, maxNameLength)
  let named = namedTool(name, undefined)
  let reader = new Reader(named, name)
  try {
    const args = typeof params === 'string' ? (parsedObject(params) ?? params) : params
    named = namedTool(name, methodOf(args))
    reader = new Reader(named, name)
    reader.read(args)
  } catch {
    // What cannot be read has no fields.
    reader.found.isCut = true
  }
  const { found, commands } = reader
  return {
    action: actionOf(named.action, reader),
    paths: found.paths,
    hosts: [...found.hosts],
    command: commands.length === 0 ? undefined : commands.join('\n'),
    isCut: found.isCut,
  }
}

function actionOf(named: CallAction | undefined, { found, commands, writes }: Reader): CallAction {
  if (named === undefined && commands.length > 0) return 'execute'
  if (writes && (named === undefined || named === 'read')) return 'write'
  if ((named === undefined || named === 'read') && found.hasAddress && found.paths.length === 0) return 'request'
  return named ?? 'other'
}
