import { redactedMark, withoutCredentials } from '../credentials.ts'
import { fieldsOf } from './configuration-sources.ts'

/** What people are shown of an MCP server: its program and package, or its address. Nothing that may hold a secret. */
export interface ServerDetails {
  command?: string
  address?: string
  version?: string
}

const maxLength = 200
/** Commands that run a package, and their words before it. */
const runners: Readonly<Record<string, readonly string[]>> = {
  npx: [],
  bunx: [],
  pnpx: [],
  uvx: [],
  npm: ['exec'],
  pnpm: ['dlx'],
  yarn: ['dlx'],
  pipx: ['run'],
}
/** Flags of them without a value. After any other, the next word may be its value, such as a token. */
const plainFlag = /^(?:-y|--yes|-q|--quiet|-s|--silent|--prefer-offline|--bun|--)$/
/** Flags whose value is the package. */
const packageFlag = /^(?:-p|--package|--from)$/
const packageName =
  /^((?:@[a-z\d][\w.-]{0,80}\/)?[a-z\d][\w.-]{0,80})(?:(?:@|==)((?:[\^~]?v?\d[\w.+-]{0,60}|latest|next)))?$/i
const interpreter = /^(?:node|bun|deno|python\d?(?:\.\d+)?)$/
const script = /^[\w.-]{1,80}\.(?:[cm]?[jt]s|py)$/

const lastPart = (path: string): string => path.replace(/^.*[\\/]/, '')
/** Removes what looks like a secret from text that must not contain one. */
const isClean = (text: string): boolean => !withoutCredentials(text).includes(redactedMark)

/** Returns the base name of a program. A line with several words may contain anything. */
function programOf(command: string): string | undefined {
  if (/\s/.test(command) && !/^[a-z]:\\[^"'|&<>]*\.(?:exe|cmd)$/i.test(command)) return undefined
  const name = lastPart(command).replace(/\.(?:exe|cmd)$/i, '')
  return /^[\w.+-]{1,80}$/.test(name) && isClean(name) ? name : undefined
}

/** Returns the first word that is no flag, unless a flag before it may have a value. */
function firstWord(words: readonly string[]): string | undefined {
  for (const [place, word] of words.entries()) {
    if (packageFlag.test(word)) return words[place + 1]
    if (!plainFlag.test(word)) return word.replace(/^--(?:package|from)=/, '')
  }
  return undefined
}

function commandOf(words: readonly string[]): ServerDetails {
  const [first = '', ...rest] = words
  const program = programOf(first)
  if (program === undefined) return {}
  if (program.toLowerCase() === 'cmd' && rest[0]?.toLowerCase() === '/c') return commandOf(rest.slice(1))
  // The proxy stands before the server that it guards.
  if (program === 'wardline-agent' && rest[0] === 'mcp-proxy' && rest[1] === '--') return commandOf(rest.slice(2))
  const verbs = Object.hasOwn(runners, program) ? runners[program]! : undefined
  const word = firstWord(verbs?.every((verb, place) => rest[place] === verb) ? rest.slice(verbs.length) : rest)
  if (word === undefined) return { command: program }
  if (verbs) {
    const [, name, version] = packageName.exec(word) ?? []
    if (name === undefined || !isClean(name)) return { command: program }
    return { command: `${program} ${name}`, ...(version === undefined ? {} : { version }) }
  }
  const file = lastPart(word)
  return { command: interpreter.test(program) && script.test(file) && isClean(file) ? `${program} ${file}` : program }
}

/** Some services have a secret in the path. */
const shownPart = (part: string): string =>
  part.length > 24 || /%|\d.*[a-z].*\d/i.test(part) || !isClean(part) ? '…' : part

function addressOf(value: string): string | undefined {
  let url: URL
  try {
    url = new URL(value)
  } catch {
    return undefined
  }
  if (!/^(?:https?|wss?):$/.test(url.protocol) || !isClean(url.host)) return undefined
  const path = url.pathname.split('/').map(shownPart).join('/')
  return `${url.protocol}//${url.host}${path === '/' ? '' : path}`.slice(0, maxLength)
}

export function serverDetails(server: unknown): ServerDetails {
  const { command, args, url, httpUrl, serverUrl } = fieldsOf(server)
  const given = [url, httpUrl, serverUrl].find((value) => typeof value === 'string') as string | undefined
  const address = given === undefined ? undefined : addressOf(given)
  if (address !== undefined) return { address }
  const words = [command, args].flat().filter((word) => typeof word === 'string')
  return commandOf(words)
}
