import { keccak_256 } from '@noble/hashes/sha3.js'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js'
import type { TrustSummary } from '@wardline/contract'
import { useState } from 'react'
import { HostileText } from '../parts/hostile-text.tsx'

type Posted = TrustSummary['verification']['on_chain']

interface Found {
  hash: string
  isRight: boolean
  words: string
}

/** Reads the posted report, and checks that its risk and its response agree: the registry's scale is inverted. */
function readReport({ report = '', request_hash }: Posted): Found {
  const hash = `0x${bytesToHex(keccak_256(utf8ToBytes(report)))}`
  try {
    const said = JSON.parse(report) as Record<string, unknown>
    const { unified_risk_score: risk, response } = said
    const isRight = said.request_hash === request_hash && typeof risk === 'number' && response === 100 - risk
    return { hash, isRight, words: isRight ? `risk ${risk}, posted as response ${response}` : 'contradicts itself' }
  } catch {
    return { hash, isRight: false, words: 'no JSON' }
  }
}

/**
 * Computes the hash of the posted report in this browser, to compare with the response hash that an explorer shows for
 * the transaction.
 */
export function ReportCheck({ posted }: { posted: Posted }) {
  const [found, setFound] = useState<Found>()
  return (
    <p role="status">
      {found === undefined ? (
        <button
          type="button"
          onClick={() => setFound(readReport(posted))}
          aria-label="verify it yourself: the posted report"
        >
          verify it yourself
        </button>
      ) : (
        <>
          report: {found.isRight ? found.words : `WRONG, ${found.words}`}; its response hash, to compare in the
          explorer: <HostileText text={found.hash} max={66} />
        </>
      )}
    </p>
  )
}
