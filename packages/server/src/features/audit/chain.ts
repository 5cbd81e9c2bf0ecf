import { hash } from 'node:crypto'
import { type Checkpoint, genesisHash } from '@wardline/contract'

export const sha256Hex = (text: string): string => hash('sha256', text, 'hex')

/** Returns `wardline-audit-checkpoint v1 seq=<n> hash=<hex> at=<ISO 8601>`, without a line feed. */
export function formatCheckpoint({ seq, hash, at }: Checkpoint): string {
  return `wardline-audit-checkpoint v1 seq=${seq} hash=${hash} at=${new Date(at).toISOString()}`
}

const checkpointForm = /^wardline-audit-checkpoint v1 seq=(\d{1,16}) hash=([0-9a-f]{64}) at=(\d{4}-[0-9T:.-]{1,20}Z)$/

/** Parses the output of `formatCheckpoint`, ignoring white space around it. Throws an Error with one sentence. */
export function parseCheckpoint(text: string): Checkpoint {
  const line = text.trim()
  const found = checkpointForm.exec(line)
  if (found === null) {
    throw new Error(
      'This is not an audit checkpoint: expected one line "wardline-audit-checkpoint v1 seq=… hash=… at=…".',
    )
  }
  const [, seq = '', hash = '', at = ''] = found
  const checkpoint = { seq: Number(seq), hash, at: Date.parse(at) }
  if (!Number.isSafeInteger(checkpoint.seq) || String(checkpoint.seq) !== seq) {
    throw new Error(`The audit checkpoint has no valid row number: "${seq}".`)
  }
  if (checkpoint.seq === 0 && hash !== genesisHash) {
    throw new Error('The audit checkpoint of an empty log must carry the hash of 64 zeros.')
  }
  if (Number.isNaN(checkpoint.at) || new Date(checkpoint.at).toISOString() !== at) {
    throw new Error(`The audit checkpoint has no valid time: "${at}".`)
  }
  return checkpoint
}
