import { type Erc8126Error, registrationType, Type } from '@wardline/contract'
import { EgressError, type ReadingEgress } from '../../../egress/egress.ts'
import { faultFinder } from '../../../validation.ts'
import { followRedirects, httpsUrl } from './follow-redirects.ts'
import type { WebEndpoint } from './web-check.ts'

/**
 * Room for some 500 services. Less than the 64 KiB at which the egress client cuts an answer, so that a cut file is
 * refused.
 */
const maxBytes = 60 * 1024

/** The registration file cannot be used. The message is one sentence, the note is public. */
export class RegistrationError extends Error {
  override name = 'RegistrationError'
  readonly error: Erc8126Error
  readonly note: string

  constructor(error: Erc8126Error, note: string, message: string) {
    super(message)
    this.error = error
    this.note = note
  }
}

const failed = (note: string, message: string) => new RegistrationError('VerificationFailed', note, message)
const unread = (message: string) => failed('The registration file could not be read.', message)
const invalid = (rule: string) =>
  failed('The registration file is not valid.', `The registration file is not valid: ${rule}`)

/** Inline, as base64 or percent-encoded (RFC 2397). */
const inline = /^data:application\/json(?:;charset=utf-8)?(;base64)?,/i

function decodeInline(uri: string, [prefix, isBase64]: RegExpExecArray): string {
  const content = uri.slice(prefix.length)
  if (isBase64 === undefined) {
    try {
      return decodeURIComponent(content)
    } catch {
      throw invalid('its data URI is not percent-encoded.')
    }
  }
  if (content.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(content))
    throw invalid('its data URI is not encoded as base64.')
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(content, 'base64'))
  } catch {
    throw invalid('it is not text in UTF-8.')
  }
}

async function fetchFile(url: URL, egress: ReadingEgress, signal: AbortSignal | undefined): Promise<string> {
  const { answers, fault } = await followRedirects({ url, accept: 'application/json', egress, signal }).catch(
    (reason) => {
      if (reason instanceof EgressError) throw unread(`The registration file cannot be read: ${reason.message}`)
      throw reason
    },
  )
  const { status, body } = answers.at(-1)!
  if (fault) throw unread(`The registration file cannot be read: ${fault.detail}`)
  if (status !== 200) throw unread(`The registration file cannot be read: its address answered with status ${status}.`)
  return body
}

/** Unknown fields are allowed: ERC-8126 adds some, and so do others. */
const Named = Type.Object({ name: Type.String(), endpoint: Type.String() })
const File = Type.Object({
  type: Type.String(),
  services: Type.Optional(Type.Array(Named)),
  endpoints: Type.Optional(Type.Array(Named)),
  url: Type.Optional(Type.String()),
  registrations: Type.Optional(
    Type.Array(Type.Object({ agentId: Type.Union([Type.Integer(), Type.String()]), agentRegistry: Type.String() })),
  ),
})
type File = {
  services?: { name: string; endpoint: string }[]
  endpoints?: { name: string; endpoint: string }[]
  url?: string
  registrations?: { agentId: number | string; agentRegistry: string }[]
}
const faultOf = faultFinder(File, 'It')

/** The checks of ERC-8126 that apply where the file has one of these fields. ERC-8004 calls the image of a media check `image`. */
const fieldsOfTypes = { etv: ['contractAddress'], mcv: ['imageUrl', 'image'], scv: ['solidityCode'] } as const
type OtherType = keyof typeof fieldsOfTypes

/** Returns what WAV checks: `services`, which older files call `endpoints`, and the `url` of ERC-8126. */
function endpointsOf({ services = [], endpoints = [], url }: File): WebEndpoint[] {
  const found = new Map<string, WebEndpoint>()
  for (const { name, endpoint } of [...services, ...endpoints]) {
    if (/^web$/i.test(name)) found.set(endpoint, { url: endpoint, kind: 'page' })
    else if (/^(a2a|mcp)$/i.test(name) && !found.has(endpoint)) found.set(endpoint, { url: endpoint, kind: 'api' })
  }
  if (url !== undefined) found.set(url, { url, kind: 'page' })
  return [...found.values()]
}

interface Asked {
  /** What `tokenURI` returned. */
  uri: string
  agentRegistry: string
  agentId: string
  egress: ReadingEgress
  signal?: AbortSignal | undefined
}

export interface RegistrationFile {
  /** The document as it was read. */
  text: string
  endpoints: WebEndpoint[]
  /** Types of ERC-8126 that apply besides WAV and WV, which apply to every agent. */
  applies: OtherType[]
}

/** Resolves and validates the registration file of an agent (https://eips.ethereum.org/EIPS/eip-8004). Throws RegistrationError. */
export async function readRegistration({
  uri,
  agentRegistry,
  agentId,
  egress,
  signal,
}: Asked): Promise<RegistrationFile> {
  const data = inline.exec(uri)
  const url = data ? undefined : httpsUrl(uri)
  if (!data && !url) {
    const scheme = /^[a-z][a-z0-9+.-]{0,20}:/i.exec(uri)?.[0] ?? 'no URI'
    throw new RegistrationError(
      'InvalidURL',
      'The address of the registration file is neither an https nor a data URI.',
      `The agentURI begins with ${scheme}, and only https: and data:application/json can be checked: set another one.`,
    )
  }
  const text = data ? decodeInline(uri, data) : await fetchFile(url!, egress, signal)
  if (Buffer.byteLength(text) > maxBytes) throw invalid(`it has more than ${maxBytes / 1024} KiB.`)
  let file: (File & { type: string } & Record<string, unknown>) | undefined
  try {
    file = JSON.parse(text)
  } catch {
    throw invalid('it is not JSON.')
  }
  const fault = faultOf(file)
  if (fault !== undefined) throw invalid(fault)
  if (file!.type !== registrationType) throw invalid(`its type is not ${registrationType}.`)
  const { registrations = [] } = file!
  const isNamed = registrations.some(
    (named) => String(named.agentId) === agentId && named.agentRegistry.toLowerCase() === agentRegistry.toLowerCase(),
  )
  // A file that was written before the registration, such as a data URI, cannot name its agent.
  if (registrations.length > 0 && !isNamed)
    throw failed(
      'The registration file names another agent.',
      `The registrations of the file do not name agent ${agentId} of ${agentRegistry}: add it there.`,
    )
  const has = (field: string) => ![undefined, null, ''].includes(file![field] as null)
  const applies = (Object.keys(fieldsOfTypes) as OtherType[]).filter((type) => fieldsOfTypes[type].some(has))
  return { text, endpoints: endpointsOf(file!), applies }
}
