import { keyFormatOf, keySource, privateKeySource } from '@wardline/policy'

export const redactedMark = '[redacted]'

const secretPart =
  'passw(?:or)?d|passphrase|secret|token|api[-_]?key|access[-_]?key|private[-_]?key|authorization|cookie|credential'
const secretName = new RegExp(`${secretPart}|bearer|jwt|^(?:auth|pass|pwd|pin|otp|sig|signature)$|key$`, 'i')

/** Whether the value of this name must be redacted, such as `apiKey`, `x-auth-token` or `Cookie`. */
export const isSecretName = (name: string): boolean => secretName.test(name)

/** Each pattern runs in linear time: every repetition is bounded, or starts at a marker that cannot recur within it. */
const replacements: readonly [format: string, pattern: RegExp, by: string][] = [
  ['private_key', new RegExp(`${privateKeySource}[\\s\\S]*?(?:-----END [^-\\n]{0,60}-----|$)`, 'g'), redactedMark],
  ['cookie', /\b((?:set-)?cookie["']?\s{0,5}[:=]\s{0,5})[^\n]+/gi, `$1${redactedMark}`],
  ['authorization', /\b(bearer|basic)\s{1,5}[\w.~+/=-]{8,}/gi, `$1 ${redactedMark}`],
  ['url_password', /\b([a-z][a-z0-9+.-]{1,20}:\/\/)[^\s/@:]{0,256}:[^\s/@]{1,256}@/gi, `$1${redactedMark}@`],
  ['key', new RegExp(keySource, 'g'), redactedMark],
  [
    'named_secret',
    new RegExp(`((?:${secretPart})[\\w-]{0,20}["']?\\s{0,5}[:=]\\s{0,5})(?:"[^"]*"?|'[^']*'?|[^\\s,;&"']+)`, 'gi'),
    `$1${redactedMark}`,
  ],
  ['named_secret', /([?&](?:key|sig|signature|auth|code)=)[^\s&#"']+/gi, `$1${redactedMark}`],
  [
    'named_secret',
    /((?<!\S)--?(?:password|passwd|pass|secret|token|api-?key|key|auth)[\w-]{0,20}(?:\s{1,5}|=))[^\s"']+/gi,
    `$1${redactedMark}`,
  ],
]

const uuids = /(?<![0-9a-f])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f])/gi
/** Ids of model services and frameworks: they look random, and are no secrets. */
const publicId =
  /^(?:thread|msg|run|step|call|(?:srv)?toolu|resp|req|chatcmpl|asst|batch|file|conv|item|gen|trace|span)[_-][A-Za-z0-9_-]+$/

/** Whether the value of this name is an id, such as `sessionId`, `thread_id` or `uuid`. */
export const isIdName = (name: string): boolean =>
  /^(?:id|uuid)$|[_-](?:id|uuid)$|[a-z\d](?:Id|ID|Uuid|UUID)$/.test(name)

/** Whether a text has a credential of a known format. Random text alone is none. */
export const hasKnownCredential = (text: string): boolean =>
  replacements.some(([, pattern]) => text.search(pattern) >= 0)

/** At most this many places of one pattern are looked at. */
const maxPlaces = 1_000

/** Formats that are unmistakable without a digit in what follows their mark: code is full of `token: string`. */
const unmistakable = ['private_key', 'url_password']

/** Returns the names of the formats of secrets in a text, never the secrets. */
export function secretFormats(text: string): string[] {
  const found = new Set<string>()
  for (const [format, pattern] of replacements) {
    let places = 0
    for (const [match, before = ''] of text.matchAll(pattern)) {
      if (unmistakable.includes(format) || /^(?=.{8})[^\n]*[0-9]/.test(match.slice(before.length))) {
        found.add(format === 'key' ? keyFormatOf(match) : format)
        if (format !== 'key') break
      }
      places += 1
      if (places === maxPlaces) break
    }
  }
  return [...found].sort()
}

/**
 * Whether a text looks random. In random text, about every second character differs in kind (upper case, lower case,
 * digit) from the one before; in words few do, and an initial capital does not count. Random text of lower-case letters
 * alone is not detected.
 */
function looksRandom(run: string): boolean {
  const text = run.replace(/[^A-Za-z0-9]/g, '')
  if (/^[0-9a-f]{32,}$/i.test(text)) return true
  const kinds = text
    .replace(/[A-Z]/g, 'A')
    .replace(/[a-z]/g, 'a')
    .replace(/[0-9]/g, '0')
    .replace(/A(?=a)/g, 'a')
  let changes = 0
  for (let place = 1; place < kinds.length; place++) if (kinds[place] !== kinds[place - 1]) changes++
  return text.length >= 18 && changes / text.length >= (text.length < 32 ? 0.2 : 0.15)
}

/** Characters of an output that are compared with decoys. A text with more of them is data, such as checksums. */
const maxKeysLength = 8_000
/** A longer run is data. An SSH key on one line has 400 characters. */
const maxRunLength = 1_000

/** Returns what may be a key in a text, a line for each: private keys, what begins like a key, random runs. */
export function keysIn(text: string): string {
  const found = new Set<string>()
  let length = 0
  const add = (match: string) => {
    // The service refuses some characters, and no key has them.
    const key = match.slice(0, maxKeysLength / 2).replace(/[^\t\r\n -~]/g, '')
    if (found.has(key) || length + key.length >= maxKeysLength) return
    found.add(key)
    length += key.length + 1
  }
  for (const [format, pattern] of replacements) {
    if (format === 'private_key' || format === 'key') for (const [key] of text.matchAll(pattern)) add(key)
  }
  for (const [run] of text.matchAll(/[\w.~+/=-]{18,}/g)) {
    if (
      run.length <= maxRunLength &&
      run
        .split(/[.~/=]/)
        .concat(run)
        .some(looksRandom)
    )
      add(run)
  }
  return [...found].join('\n')
}

/** Replaces everything that looks like a key, a token or a password. */
export function withoutCredentials(text: string): string {
  let result = text
  for (const [, pattern, by] of replacements) result = result.replace(pattern, by)
  return result.replace(/[A-Za-z0-9+/=_-]{18,}/g, (run) =>
    !publicId.test(run) && looksRandom(run.replace(uuids, '')) ? redactedMark : run,
  )
}
