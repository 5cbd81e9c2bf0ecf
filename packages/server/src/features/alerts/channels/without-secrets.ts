/** Characters that HTML has names for in the forms that servers write. */
const entities: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&apos;',
  '/': '&sol;',
  '=': '&equals;',
  ':': '&colon;',
}

const hex = (value: number, digits: number): string => value.toString(16).padStart(digits, '0')
const literally = (text: string): string => text.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')

/** `%`, also where it was escaped once more: as %25, or by JSON or HTML. */
const percent = '(?:%(?:25){0,2}|\\\\u0025|&#0*37;|&#x0*25;)'

/** A pattern of all the forms in which one character of a secret may come back. */
function formsOf(character: string): string {
  const code = character.codePointAt(0)!
  const units = Array.from({ length: character.length }, (_, index) => character.charCodeAt(index))
  const bytes = [...Buffer.from(character)]
  return [
    bytes.map((byte) => `${percent}${hex(byte, 2)}`).join(''),
    units.map((unit) => `\\\\{1,2}u${hex(unit, 4)}`).join(''),
    ...(code < 256 ? [`\\\\x${hex(code, 2)}`] : []),
    `&(?:amp;)?#0*${code};`,
    `&(?:amp;)?#x0*${code.toString(16)};`,
    ...(entities[character] === undefined ? [] : [entities[character]!]),
    ...(character === ' ' ? ['\\+'] : []),
    // Last, since others begin with it. JSON escapes slashes and quotes by a backslash, JSON within JSON by more of them.
    `\\\\{0,3}${literally(character)}`,
  ].join('|')
}

/** Patterns take some hundred bytes for each character; no setting is longer. */
const maxLength = 2_048

/**
 * Takes secrets out of texts, in whatever form they come: percent-encoded, escaped for JSON or HTML, in part or twice.
 * To be made once for each set of secrets.
 */
export function secretRemover(secrets: readonly string[]): (text: string) => string {
  const patterns = [...new Set(secrets)]
    .filter((secret) => secret !== '')
    // The longest first: no rest of one stays because a part of it was taken out.
    .sort((one, other) => other.length - one.length)
    .map((secret) => {
      const characters = [...secret.slice(0, maxLength)].map((character) => `(?:${formsOf(character)})`)
      return new RegExp(characters.join(''), 'gi')
    })
  return (text) => patterns.reduce((rest, pattern) => rest.replaceAll(pattern, '[secret]'), text)
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
