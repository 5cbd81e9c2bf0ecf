/** Characters that HTML has names for in the forms that servers write. */
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

/** Escapes of URLs, JSON, JavaScript and HTML; a pair of surrogates counts as one. */
const escapes =
  /%([\da-f]{2})|\\u(d[89ab][\da-f]{2})\\u(d[c-f][\da-f]{2})|\\u([\da-f]{4})|\\x([\da-f]{2})|\\([\s\S])|&#0{0,8}(\d{1,7});|&#x0{0,8}([\da-f]{1,6});|&([a-z]{2,6});/gi

/** Encodings that may lie upon each other, as in `%252F`, or JSON within JSON. */
const maxLayers = 3

/** Texts as one character a byte of UTF-8, so that a percent sign stands for one character too. */
const bytesOf = (text: string): string => Buffer.from(text).toString('latin1')
const textOf = (bytes: string): string => Buffer.from(bytes, 'latin1').toString()
const ofCode = (code: number): string | undefined =>
  code <= 0x10ffff ? bytesOf(String.fromCodePoint(code)) : undefined
const fromHex = (hex: string): number => Number.parseInt(hex, 16)

/** What one escape stands for; undefined when it is none. */
function meaning(groups: (string | undefined)[]): string | undefined {
  const [percent, high, low, unit, byte, after, decimal, hex, name] = groups
  if (percent !== undefined) return String.fromCharCode(fromHex(percent))
  if (high !== undefined) return bytesOf(String.fromCharCode(fromHex(high), fromHex(low!)))
  if (after !== undefined) return /[nrtbf]/.test(after) ? ' ' : after
  if (decimal !== undefined) return ofCode(Number(decimal))
  if (name !== undefined) return entities[name.toLowerCase()]
  return ofCode(fromHex(unit ?? byte ?? hex!))
}

/** A text with some layers of encoding taken off; `from`: where each character of it begins in the text as it came. */
interface Reading {
  text: string
  from: readonly number[]
}

const asItCame = (text: string): Reading => ({ text, from: Array.from({ length: text.length + 1 }, (_, at) => at) })

/** The reading with one more layer taken off; undefined when there is none. */
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

/** Without the difference of case, and of what encodings write for a space. Keeps every place. */
const folded = (bytes: string): string => bytes.toLowerCase().replaceAll(/[+\0-\x1f\x7f]/g, ' ')

/** Secrets are filed under their first characters, of which a text has only so many. */
const markLength = 4
/** Text behind the shown part that is searched, so that a secret which begins in it is found whole. */
const lookAhead = 4_096

/**
 * Takes secrets out of the first `most` characters of texts and leaves out the rest; in whatever form they come:
 * percent-encoded, escaped for JSON or HTML, in part or twice. To be made once for each set of secrets. Who receives
 * alerts chooses the text: the work grows with its length alone.
 */
export function secretRemover(secrets: readonly string[]): (text: string, maxLength?: number) => string {
  const forms = new Set<string>()
  for (const secret of secrets)
    for (const { text } of readings(bytesOf(secret))) if (text !== '') forms.add(folded(text))
  const length = Math.min(markLength, ...[...forms].map((form) => form.length))
  const byMark = Map.groupBy(forms, (form) => form.slice(0, length))

  /** Where the longest secret that begins at `at` ends. What the end of the text cuts off counts as found. */
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

/** What a receiver answered, without what was confided to it: some repeat the request in their errors. */
export const withoutSecrets = (text: string, secrets: readonly string[]): string => secretRemover(secrets)(text)

/** Shorter strings of settings, such as `json` or `eu`, are no secrets; nor is a part of a URL such as `v1`. */
const minSetting = 8
const minUrlPart = 4

/** Settings whose name says that they are secret, however short. */
const secretNames = /^(token|secret|routing_key|password|key)$/

function* texts(value: unknown, name = ''): Generator<{ text: string; name: string }> {
  if (typeof value === 'string') yield { text: value, name }
  else if (value !== null && typeof value === 'object') {
    for (const [key, part] of Object.entries(value)) yield* texts(part, Array.isArray(value) ? name : key)
  }
}

/** As it stands, and as it reads decoded; text that only looks encoded stays as it is. */
function decodings(text: string): string[] {
  try {
    return [text, decodeURIComponent(text), decodeURIComponent(text.replaceAll('+', ' '))]
  } catch {
    return [text]
  }
}

/** All of a URL but its host: where receivers put their secrets. */
function urlSecrets({ pathname, search, hash, username, password }: URL): string[] {
  const parts = [...search.slice(1).split(/[&;]/), hash.slice(1)]
  const values = parts.map((part) => part.slice(part.indexOf('=') + 1))
  // A user is in every message of a mail server; with the length of a token it may be one.
  const secrets = [`${pathname}${search}`, pathname, search, search.slice(1), hash, ...parts, ...values, password]
  return [...secrets, ...pathname.split('/'), ...(username.length >= minSetting ? [username] : [])]
    .flatMap(decodings)
    .filter((secret) => secret.length >= minUrlPart)
}

/** What of the settings of a channel must not come back in any answer, error or log. */
export const secretsOfSettings = (settings: unknown): string[] =>
  [...texts(settings)].flatMap(({ text, name }) => {
    const parts = URL.canParse(text) ? urlSecrets(new URL(text)) : []
    const isLong = text.length >= (secretNames.test(name) ? minUrlPart : minSetting)
    return isLong ? [text, ...parts] : parts
  })
