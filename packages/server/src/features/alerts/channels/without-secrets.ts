/** Named HTML entities that servers use when they escape. */
const entities: Record<string, string> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  apos: "'",
  sol: '/',
  equals: '=',
  colon: ':',
}

/** Escapes of URLs, JSON, JavaScript and HTML; a surrogate pair is one match. */
const escapes =
  /%([\da-f]{2})|\\u(d[89ab][\da-f]{2})\\u(d[c-f][\da-f]{2})|\\u([\da-f]{4})|\\x([\da-f]{2})|\\([\s\S])|&#0{0,8}(\d{1,7});|&#x0{0,8}([\da-f]{1,6});|&([a-z]{2,6});/gi

/** Maximum depth of nested encodings, such as `%252F` or JSON within JSON. */
const maxLayers = 3

/** Converts a text to one character per UTF-8 byte, so that every percent escape decodes to one character. */
const bytesOf = (text: string): string => Buffer.from(text).toString('latin1')
const textOf = (bytes: string): string => Buffer.from(bytes, 'latin1').toString()
const ofCode = (code: number): string | undefined =>
  code <= 0x10ffff ? bytesOf(String.fromCodePoint(code)) : undefined
const fromHex = (hex: string): number => Number.parseInt(hex, 16)

/** Decodes one match of `escapes`; undefined if it is not an escape, such as an unknown entity. */
function meaning(groups: (string | undefined)[]): string | undefined {
  const [percent, high, low, unit, byte, after, decimal, hex, name] = groups
  if (percent !== undefined) return String.fromCharCode(fromHex(percent))
  if (high !== undefined) return bytesOf(String.fromCharCode(fromHex(high), fromHex(low!)))
  if (after !== undefined) return /[nrtbf]/.test(after) ? ' ' : after
  if (decimal !== undefined) return ofCode(Number(decimal))
  if (name !== undefined) return entities[name.toLowerCase()]
  return ofCode(fromHex(unit ?? byte ?? hex!))
}

/** A text, decoded zero or more times. `from` has the position of each of its characters in the original text. */
interface Reading {
  text: string
  from: readonly number[]
}

const asItCame = (text: string): Reading => ({ text, from: Array.from({ length: text.length + 1 }, (_, at) => at) })

/** Decodes the text once more; undefined if it contains no escape. */
function decoded({ text, from }: Reading): Reading | undefined {
  const parts: string[] = []
  const places: number[] = []
  let done = 0
  const copy = (end: number) => {
    parts.push(text.slice(done, end))
    for (let at = done; at < end; at++) places.push(from[at]!)
  }
  for (const match of text.matchAll(escapes)) {
    const means = meaning(match.slice(1))
    if (means === undefined) continue
    copy(match.index)
    parts.push(means)
    for (let count = 0; count < means.length; count++) places.push(from[match.index]!)
    done = match.index + match[0].length
  }
  if (done === 0) return undefined
  copy(text.length)
  return { text: parts.join(''), from: [...places, from[text.length]!] }
}

function* readings(text: string): Generator<Reading> {
  let reading: Reading | undefined = asItCame(text)
  for (let layers = 0; reading !== undefined; layers++) {
    yield reading
    reading = layers < maxLayers ? decoded(reading) : undefined
  }
}

/** Ignores case and the ways to encode a space. Keeps the length, so that positions remain valid. */
const folded = (bytes: string): string => bytes.toLowerCase().replaceAll(/[+\0-\x1f\x7f]/g, ' ')

/** Secrets are indexed by this many first characters, so that a position is compared with few secrets. */
const markLength = 4
/** Characters behind the shown part that are searched too, for a secret that begins in the shown part. */
const lookAhead = 4_096

/**
 * Returns a function that removes secrets from the first `maxLength` characters of a text and drops the rest. It also
 * finds secrets that are percent-encoded or escaped for JSON or HTML, in part or repeatedly. Create it once per set of
 * secrets. A receiver chooses the text, so the work must not grow with the number of secrets times its length.
 */
export function secretRemover(secrets: readonly string[]): (text: string, maxLength?: number) => string {
  const forms = new Set<string>()
  for (const secret of secrets)
    for (const { text } of readings(bytesOf(secret))) if (text !== '') forms.add(folded(text))
  const length = Math.min(markLength, ...[...forms].map((form) => form.length))
  const byMark = Map.groupBy(forms, (form) => form.slice(0, length))

  /** Returns the end of the longest secret that begins at `at`; if `isCut`, also of one that the text's end cuts. */
  function endOfSecret(text: string, at: number, isCut: boolean): number | undefined {
    let end: number | undefined
    for (const form of byMark.get(text.slice(at, at + length)) ?? []) {
      const isWhole = text.startsWith(form, at)
      if (!isWhole && !(isCut && at + form.length > text.length && form.startsWith(text.slice(at)))) continue
      end = Math.max(end ?? 0, Math.min(text.length, at + form.length))
    }
    return end
  }

  return (text, maxLength = 2_048) => {
    const searched = bytesOf(text.slice(0, maxLength + lookAhead))
    const isCut = text.length > maxLength + lookAhead
    const shownLength = Buffer.byteLength(text.slice(0, maxLength))
    const found: [start: number, end: number][] = []
    for (const { text: reading, from } of readings(searched)) {
      const plain = folded(reading)
      for (let at = 0; at < plain.length && from[at]! < shownLength; at++) {
        const end = endOfSecret(plain, at, isCut)
        if (end !== undefined) found.push([from[at]!, from[end]!])
      }
    }
    let shown = ''
    let done = 0
    for (const [start, end] of found.sort(([one], [other]) => one - other)) {
      if (start >= done) shown += `${textOf(searched.slice(done, start))}[secret]`
      done = Math.max(done, end)
    }
    return done < shownLength ? shown + textOf(searched.slice(done, shownLength)) : shown
  }
}

/** Removes secrets from the response of a receiver, because some repeat the request in their errors. */
export const withoutSecrets = (text: string, secrets: readonly string[]): string => secretRemover(secrets)(text)

/** Minimum lengths of a secret: shorter settings, such as `json` or `eu`, and parts of URLs, such as `v1`, are none. */
const minSetting = 8
const minUrlPart = 4

/** Names of settings that are always secret, from `minUrlPart` characters on. */
const secretNames = /^(token|secret|routing_key|password|key)$/

function* texts(value: unknown, name = ''): Generator<{ text: string; name: string }> {
  if (typeof value === 'string') yield { text: value, name }
  else if (value !== null && typeof value === 'object') {
    for (const [key, part] of Object.entries(value)) yield* texts(part, Array.isArray(value) ? name : key)
  }
}

/** Returns the text itself and its percent-decoded forms, unless its percent-encoding is invalid. */
function decodings(text: string): string[] {
  try {
    return [text, decodeURIComponent(text), decodeURIComponent(text.replaceAll('+', ' '))]
  } catch {
    return [text]
  }
}

/** Returns all parts of a URL except the host, because receivers put their secrets there. */
function urlSecrets({ pathname, search, hash, username, password }: URL): string[] {
  const parts = [...search.slice(1).split(/[&;]/), hash.slice(1)]
  const values = parts.map((part) => part.slice(part.indexOf('=') + 1))
  // Mail servers repeat the user in their responses, so it only counts as secret if it is as long as a token.
  const secrets = [`${pathname}${search}`, pathname, search, search.slice(1), hash, ...parts, ...values, password]
  return [...secrets, ...pathname.split('/'), ...(username.length >= minSetting ? [username] : [])]
    .flatMap(decodings)
    .filter((secret) => secret.length >= minUrlPart)
}

/** Returns the secrets in the settings of a channel, which must not appear in a response, error or log. */
export const secretsOfSettings = (settings: unknown): string[] =>
  [...texts(settings)].flatMap(({ text, name }) => {
    const parts = URL.canParse(text) ? urlSecrets(new URL(text)) : []
    const isLong = text.length >= (secretNames.test(name) ? minUrlPart : minSetting)
    return isLong ? [text, ...parts] : parts
  })
