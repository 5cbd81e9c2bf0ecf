/** Fields of JSON-RPC and of `tools/call` that decide what a server does. */
const messageFields = ['jsonrpc', 'id', 'method', 'params']
const callFields = ['name', 'arguments', '_meta']

/** As Go's encoding/json compares names: it also takes the long s and the Kelvin sign for s and k. */
const folded = (name: string) => name.toLowerCase().replaceAll('\u017f', 's').replaceAll('\u212a', 'k')

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const hasVariant = (value: unknown, fields: readonly string[]): boolean =>
  isObject(value) && Object.keys(value).some((name) => !fields.includes(name) && fields.includes(folded(name)))

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

/** Counts the members of all objects in a value, without recursion: it may be nested deeper than the stack allows. */
function membersOf(content: object): number {
  let count = 0
  const open: object[] = [content]
  for (let value = open.pop(); value !== undefined; value = open.pop()) {
    if (!Array.isArray(value)) count += Object.keys(value).length
    for (const inner of Object.values(value)) if (typeof inner === 'object' && inner !== null) open.push(inner)
  }
  return count
}

/**
 * Whether another JSON parser may read another message: one that takes the first of two members with the same name
 * (RFC 8259, section 4, allows either), or that ignores case. `content` is the parsed `text`.
 */
export function isAmbiguous(text: string, content: object): boolean {
  const messages = Array.isArray(content) ? content : [content]
  const isVariant = messages.some(
    (message) => hasVariant(message, messageFields) || (isObject(message) && hasVariant(message.params, callFields)),
  )
  return isVariant || membersIn(text) !== membersOf(content)
}
