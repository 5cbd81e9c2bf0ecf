import { crc32Base62 } from '@wardline/text'
import { isAzureStorageKey, isGitlabRoutableToken } from './decoy-checksums.ts'

/**
 * One shape of decoy. Every value contains `mark` at offset `before`. `shape` is sticky, bounded and matches exactly
 * the value, so that a value can be cut out of surrounding text.
 */
interface KeyFormat {
  mark: string
  before: number
  shape: RegExp
  /** The shape in lower case. */
  folded: RegExp
  isGenuine?: (value: string) => boolean
}

/** Begins the body of an OpenSSH key, which is written in lines. */
export const wrappedMark = 'b3BlbnNzaC1rZXktdjE'

/** Every shape that carries a mark. The shapes without one are the bare tokens of `tokenLengths`. */
const shapes: readonly Omit<KeyFormat, 'folded'>[] = [
  { mark: 'sk-proj-', before: 0, shape: /sk-proj-[\w-]{74}T3BlbkFJ[\w-]{73}A/y },
  { mark: 'sk-ant-api03-', before: 0, shape: /sk-ant-api03-[\w-]{93}AA/y },
  { mark: 'sk-', before: 0, shape: /sk-[0-9a-f]{32}/y },
  { mark: 'AKIA', before: 0, shape: /AKIA[Q-Z2-6][A-Z2-7]{15}/y },
  { mark: 'ghp_', before: 0, shape: /ghp_[0-9A-Za-z]{36}/y, isGenuine: hasGithubChecksum },
  { mark: 'npm_', before: 0, shape: /npm_[0-9A-Za-z]{36}/y, isGenuine: hasGithubChecksum },
  { mark: 'glpat-', before: 0, shape: /glpat-[\w-]{43}\.01\.17[0-9a-z]{7}/y, isGenuine: isGitlabRoutableToken },
  { mark: 'xoxb-', before: 0, shape: /xoxb-\d{12}-\d{13}-[0-9A-Za-z]{24}/y },
  { mark: 'sk_live_', before: 0, shape: /sk_live_51[0-9A-Za-z]{87}00[0-9A-Za-z]{8}/y },
  { mark: 'AIzaSy', before: 0, shape: /AIzaSy[\w-]{33}/y },
  { mark: 'SG.', before: 0, shape: /SG\.[\w-]{22}\.[\w-]{43}/y },
  { mark: 'hf_', before: 0, shape: /hf_[A-Za-z]{34}/y },
  { mark: 'AC', before: 0, shape: /AC[0-9a-f]{32}/y },
  { mark: '8Q~', before: 3, shape: /[\w~.]{3}8Q~[\w~.-]{34}/y },
  { mark: '+ASt', before: 76, shape: /[A-Za-z0-9+/]{76}\+ASt[A-Za-z0-9+/]{5}[AQgw]==/y, isGenuine: isAzureStorageKey },
  { mark: 'eyJhbGciOiJFUzI1NiIsImtpZCI6', before: 0, shape: /eyJ[\w-]{72}\.eyJ[\w-]{120,320}\.[\w-]{86}/y },
  { mark: wrappedMark, before: 0, shape: /b3BlbnNzaC1rZXktdjE[A-Za-z0-9+/]{315}/y },
]

export const keyFormats: readonly KeyFormat[] = shapes.map((format) => ({
  ...format,
  folded: new RegExp(format.shape.source, 'iy'),
}))

/** Second form stored for every decoy, to find it in text that lost its case. No key starts with this prefix. */
export function foldedForm(value: string): string {
  return `folded:${value.toLowerCase()}`
}

/**
 * Lengths of decoys that are a run of letters and digits without a mark: a Twilio token and a database password (32), a
 * generic key (40), an Ethereum key (64). An AWS secret also has 40 characters, but may contain `+` and `/`.
 */
export const tokenLengths = [32, 40, 64] as const
export const awsSecretLength = 40

/** A two-letter mark turns up in any random text, so only the longer ones can be kept out of a value. */
const exclusiveMarks = keyFormats.map((format) => format.mark).filter((mark) => mark.length > 2)

/**
 * Whether no other key begins inside `value`, whose own mark is at `ownPlace`. Generators only issue and the search
 * only accepts such values, so two finds overlap by at most a mark. This keeps the number of finds in a hostile text
 * small.
 */
export function holdsOneMark(value: string, ownPlace: number): boolean {
  return exclusiveMarks.every((mark) => {
    const place = value.indexOf(mark)
    return place === -1 || (place === ownPlace && value.indexOf(mark, place + 1) === -1)
  })
}

/** Whether a text mixes digits, upper and lower case, like every bare token that is not hexadecimal. */
export function isMixed(text: string): boolean {
  return /[0-9]/.test(text) && /[A-Z]/.test(text) && /[a-z]/.test(text)
}

/** Like `isMixed`, for text in lower case. Excludes hexadecimal tokens, which match in either case anyway. */
export function isMixedFolded(text: string): boolean {
  return /[0-9]/.test(text) && /[g-z]/.test(text)
}

export function isHex(text: string): boolean {
  return /^[0-9a-fA-F]+$/.test(text)
}

function hasGithubChecksum(token: string): boolean {
  return crc32Base62(token.slice(4, 34)) === token.slice(34)
}
