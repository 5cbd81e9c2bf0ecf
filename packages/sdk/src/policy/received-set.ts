import { Buffer } from 'node:buffer'
import { MonitorError } from '../faults.ts'
import { openRegular, tailOf, withFile } from '../regular-file.ts'
import type { VerifyText } from '../signed-control.ts'
import { replaceFile } from '../state-file.ts'

/** The policies of one agent, as the service signed them. The names are those of the answer and of the stored file. */
export interface ReceivedSet {
  instance_id: string
  version: number
  /** JSON of the policies. */
  body: string
  signature_ed25519?: string | undefined
}

/** Bytes of the policies of one agent: a hook reads and parses them before every call. */
export const maxSetBytes = 512 * 1024
/** With the escapes of JSON within JSON, a body takes at most twice its bytes, if it is mostly quotes and backslashes. */
const maxFileBytes = 2 * maxSetBytes + 1024

/**
 * Reads an answer of the service or a stored file: a set for this agent, signed by the deployment if `verify` is given.
 * Otherwise returns a sentence about what is wrong with it, which quotes nothing from it.
 */
export function readSet(value: unknown, instanceId: string, verify: VerifyText | undefined): ReceivedSet | string {
  const { instance_id, version, body, signature_ed25519 } = Object(value) as Record<string, unknown>
  if (instance_id !== instanceId) return 'The policies are not those of this agent.'
  if (!Number.isSafeInteger(version) || (version as number) < 1 || typeof body !== 'string') {
    return 'The answer has no policies.'
  }
  const bytes = Buffer.byteLength(body)
  if (bytes > maxSetBytes) return `The policies of this agent have ${bytes} bytes; the maximum is ${maxSetBytes}.`
  // The body is JSON without line feeds, so none of the lines can be taken for another.
  if (verify && !verify(`wardline-policy-v1\n${instanceId}\n${version}\n${body}\n`, signature_ed25519)) {
    return 'The policies are not signed by a key of publicKey. Either they were changed, or publicKey belongs to another deployment.'
  }
  const signature = typeof signature_ed25519 === 'string' ? { signature_ed25519 } : {}
  return { instance_id: instanceId, version: version as number, body, ...signature }
}

/** Returns the stored set, or undefined if there is none, or a fault if it cannot be used. */
export function readStoredSet(
  file: string,
  instanceId: string,
  verify: VerifyText | undefined,
): ReceivedSet | MonitorError | undefined {
  let text: string
  try {
    text = withFile(openRegular(file, 'read'), (descriptor) => tailOf(descriptor, maxFileBytes))
  } catch (fault) {
    const { code = 'unknown' } = fault as { code?: string }
    if (code === 'ENOENT') return undefined
    return new MonitorError('file', `The stored policies cannot be read (${code}). Give the agent read access.`, fault)
  }
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    // Reported below.
  }
  const set = readSet(value, instanceId, verify)
  return typeof set === 'string' ? new MonitorError('file', `The stored policies are ignored. ${set}`) : set
}

/** Stores a set, unless a newer one is stored already, by another process of this agent. */
export function storeSet(file: string, set: ReceivedSet, verify: VerifyText | undefined): MonitorError | undefined {
  const stored = readStoredSet(file, set.instance_id, verify)
  if (stored && !(stored instanceof MonitorError) && stored.version >= set.version) return undefined
  try {
    replaceFile(file, `${JSON.stringify(set)}\n`)
  } catch (fault) {
    const { code = 'unknown' } = fault as { code?: string }
    const help = 'After a restart without the service no policy would hold; make its folder writable.'
    return new MonitorError('file', `The policies cannot be stored (${code}). ${help}`, fault)
  }
}
