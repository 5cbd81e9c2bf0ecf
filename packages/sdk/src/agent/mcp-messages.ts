import { isUtf8 } from 'node:buffer'

export type Message = Record<string, unknown>

/** The messages in a line: none if it is blank. Or why the server may read others than the ones checked here. */
export type Reading = Message[] | 'unreadable' | 'invalid' | 'ambiguous'

/** Fields of JSON-RPC and of `tools/call` that decide what a server does. */
const messageFields = ['jsonrpc', 'id', 'method', 'params']
const callFields = ['name', 'arguments', '_meta']
/** The method of a call. */
export const toolCall = 'tools/call'

export const isMessage = (value: unknown): value is Message =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/**
 * Reads a line as the transport of MCP defines it: UTF-8, one JSON-RPC message or a batch (revisions before 2025-06-18),
 * no line break inside. Other parsers accept more, such as NaN, a byte order mark, or a second message after a carriage
 * return.
 */
export function messagesIn(line: Buffer): Reading {
  if (!isUtf8(line)) return 'unreadable'
  const text = line.toString().replace(/\r?\n$/, '')
  // Some clients keep a connection alive by empty lines.
  if (/^[ \t\r]*$/.test(text)) return []
  const content = parsed(text)
  // JSON allows a carriage return between values; a server may take it for the end of a line.
  if (content === undefined || text.trimEnd().includes('\r')) return 'unreadable'
  const messages = Array.isArray(content) ? content : [content]
  if (messages.length === 0 || !messages.every(isMessage)) return 'invalid'
  // A server that looks its methods up in an object would take a list of one name for the name.
  if (messages.some(({ method = null }) => method !== null && typeof method !== 'string')) return 'invalid'
  return messages.some(hasVariant) || hasDoubledMember(text, messages) ? 'ambiguous' : messages
}

/**
 * The name as the most lenient parsers compare it: Go's encoding/json ignores case, and takes the long s and the Kelvin
 * sign for s and k; in C a text ends at a NUL.
 */
const folded = (name: string) =>
  name.split('\0', 1)[0]!.toLowerCase().replaceAll('\u017f', 's').replaceAll('\u212a', 'k')

const hasVariantOf = (value: unknown, fields: readonly string[]): boolean =>
  isMessage(value) && Object.keys(value).some((name) => !fields.includes(name) && fields.includes(folded(name)))

const hasVariant = (message: Message): boolean =>
  hasVariantOf(message, messageFields) ||
  hasVariantOf(message.params, callFields) ||
  (typeof message.method === 'string' && isVariant(message.method))

/** Comparisons of PowerShell and .NET ignore case, and signs without a width; other servers remove blanks. */
const isVariant = (method: string): boolean =>
  method.includes('\0') ||
  (method !== toolCall && folded(method.normalize('NFKC')).replace(/[^a-z0-9/]/g, '') === toolCall)

/** Whether an object in a valid JSON text has two members of one name, of which a parser may take either. */
export const hasDoubledMember = (text: string, content: object): boolean => membersIn(text) !== membersOf(content)

/** Counts the members of all objects in a valid JSON text: each has one colon outside of strings. */
function membersIn(text: string): number {
  let count = 0
  for (let at = 0; at < text.length; at += 1) {
    const sign = text[at]
    if (sign === ':') count += 1
    else if (sign === '"') {
      for (at += 1; text[at] !== '"'; at += 1) if (text[at] === '\\') at += 1
    }
  }
  return count
}

/**
 * Counts the members of all objects in a value, without recursion: it may be nested deeper than the stack allows. Fewer
 * than in its text are left if two have the same name, of which a parser may take either (RFC 8259, section 4).
 */
function membersOf(content: object): number {
  let count = 0
  const open: object[] = [content]
  for (let value = open.pop(); value !== undefined; value = open.pop()) {
    if (!Array.isArray(value)) count += Object.keys(value).length
    for (const inner of Object.values(value)) if (typeof inner === 'object' && inner !== null) open.push(inner)
  }
  return count
}
