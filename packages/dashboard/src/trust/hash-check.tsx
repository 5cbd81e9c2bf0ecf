import { type Attestation, attestationText } from '@wardline/contract'
import { useState } from 'react'
import { canVerify, sha256Hex } from '../parts/sha256.ts'

type Verdict = 'right' | 'wrong'
const words = { right: 'computed here: right', wrong: 'computed here: WRONG' } as const

/**
 * Computes the hash of a published attestation in this browser. Only the chain can show whether the hash was changed
 * too.
 */
export function HashCheck({ item }: { item: Attestation }) {
  const [verdict, setVerdict] = useState<Verdict>()
  if (!canVerify()) return null
  const check = async () => {
    const computed = `0x${await sha256Hex(attestationText(item))}`
    setVerdict(computed === item.hash ? 'right' : 'wrong')
  }
  return (
    <p role="status">
      {verdict === undefined ? (
        <button
          type="button"
          onClick={check}
          aria-label={`verify it yourself: the hash of ${item.period}, ${item.tag}`}
        >
          verify it yourself
        </button>
      ) : (
        words[verdict]
      )}
    </p>
  )
}
