export const redactedMark = '[redacted]'

const secretPart =
  'passw(?:or)?d|passphrase|secret|token|api[-_]?key|access[-_]?key|private[-_]?key|authorization|cookie|credential'
const secretName = new RegExp(`${secretPart}|bearer|jwt|^(?:auth|pass|pwd|pin|otp|sig|signature)$|key$`, 'i')

/** Whether the value of this name must be redacted, such as `apiKey`, `x-auth-token` or `Cookie`. */
export const isSecretName = (name: string): boolean => secretName.test(name)

/** Each pattern runs in linear time: every repetition is bounded, or starts at a marker that cannot recur within it. */
const replacements: readonly [pattern: RegExp, by: string][] = [
  [/-----BEGIN [^-\n]{0,60}PRIVATE KEY-----[\s\S]*?(?:-----END [^-\n]{0,60}-----|$)/g, redactedMark],
  [/\b((?:set-)?cookie["']?\s{0,5}[:=]\s{0,5})[^\n]+/gi, `$1${redactedMark}`],
  [/\b(bearer|basic)\s{1,5}[\w.~+/=-]{8,}/gi, `$1 ${redactedMark}`],
  [/\b([a-z][a-z0-9+.-]{1,20}:\/\/)[^\s/@:]{0,256}:[^\s/@]{1,256}@/gi, `$1${redactedMark}@`],
  [
    /(?<![A-Za-z0-9])(?:wl_|[spr]k[-_]|gh[a-z]_|github_pat_|glpat-|xox[a-z]-|xapp-|npm_|hf_|A[KS]IA|AIza|SG\.|ya29\.|whsec_|shp[a-z]{2}_|dop_v1_|pypi-|eyJ)[\w.~+/=-]{8,}/g,
    redactedMark,
  ],
  [
    new RegExp(`((?:${secretPart})[\\w-]{0,20}["']?\\s{0,5}[:=]\\s{0,5})(?:"[^"]*"?|'[^']*'?|[^\\s,;&"']+)`, 'gi'),
    `$1${redactedMark}`,
  ],
  [/([?&](?:key|sig|signature|auth|code)=)[^\s&#"']+/gi, `$1${redactedMark}`],
  [
    /((?<!\S)--?(?:password|passwd|pass|secret|token|api-?key|key|auth)[\w-]{0,20}(?:\s{1,5}|=))[^\s"']+/gi,
    `$1${redactedMark}`,
  ],
]

const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

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

/** Replaces everything that looks like a key, a token or a password. */
export function withoutCredentials(text: string): string {
  let result = text
  for (const [pattern, by] of replacements) result = result.replace(pattern, by)
  return result.replace(/[A-Za-z0-9+/=_-]{18,}/g, (run) => (looksRandom(run) && !uuid.test(run) ? redactedMark : run))
}
