import type { Checkpoint } from '@wardline/contract'
import type { Deps } from '../../deps.ts'
import { formatCheckpoint, parseCheckpoint } from './chain.ts'
import { currentSigningKey, isSignedBy, ownPublicKey, signEvidence } from './signing-keys.ts'

const signatureForm = / kid=([0-9a-f]{16}) sig=([\w-]{86})$/
const checkpointKind = 'wardline-checkpoint-v1'

/** Formats the checkpoint as one line and appends a signature of the deployment. */
export async function signCheckpoint(
  deps: Pick<Deps, 'database' | 'secrets'>,
  checkpoint: Checkpoint,
): Promise<string> {
  const line = formatCheckpoint(checkpoint)
  const key = await currentSigningKey(deps, checkpoint.at)
  return `${line} kid=${key.kid} sig=${signEvidence(key, checkpointKind, Buffer.from(line))}`
}

/**
 * Parses a checkpoint and verifies its signature, if there is one. Checkpoints of earlier versions have none. Rejects
 * with an Error of one sentence.
 */
export async function readCheckpoint(
  deps: Pick<Deps, 'database' | 'secrets'>,
  text: string,
): Promise<{ checkpoint: Checkpoint; isSigned: boolean }> {
  const line = text.trim()
  const [end, kid, signature] = signatureForm.exec(line) ?? []
  if (end === undefined) return { checkpoint: parseCheckpoint(line), isSigned: false }
  const unsigned = line.slice(0, -end.length)
  const checkpoint = parseCheckpoint(unsigned)
  const key = await ownPublicKey(deps, kid!)
  if (key === undefined) {
    throw new Error(`The audit checkpoint is signed by key ${kid}, which is not a key of this deployment.`)
  }
  if (!isSignedBy(key, checkpointKind, Buffer.from(unsigned), signature!)) {
    throw new Error('The signature of the audit checkpoint is wrong: the checkpoint was altered.')
  }
  return { checkpoint, isSigned: true }
}
