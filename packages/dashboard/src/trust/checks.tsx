import { keccak_256 } from '@noble/hashes/sha3.js'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js'
import { type Attestation, attestationText, type TrustSummary } from '@wardline/contract'
import { type ReactNode, useState } from 'react'
import { canVerify, sha256Hex } from '../parts/sha256.ts'
import { Button } from '../ui/button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'

type Posted = TrustSummary['verification']['on_chain']

/** Runs a check in this browser and shows its result in place of the button. */
function Check({ about, run }: { about: string; run(): ReactNode | Promise<ReactNode> }) {
  const [result, setResult] = useState<ReactNode>()
  return (
    <p role="status">
      {result ?? (
        <Button about={about} onClick={async () => setResult(await run())}>
          Verify
        </Button>
      )}
    </p>
  )
}

/** Computes the hash of a published attestation. Only the chain can show whether the hash was changed too. */
export function HashCheck({ item }: { item: Attestation }) {
  if (!canVerify()) return null
  const run = async () =>
    `0x${await sha256Hex(attestationText(item))}` === item.hash
      ? 'Hash matches (computed in your browser)'
      : 'Hash does NOT match (computed in your browser)'
  return <Check about={`the hash of ${item.period}, ${item.tag}`} run={run} />
}

/** Reads the posted report, and checks that its risk and its response agree: the registry's scale is inverted. */
function resultOf({ report = '', request_hash }: Posted): string {
  try {
    const said = JSON.parse(report) as Record<string, unknown>
    const { unified_risk_score: risk, response } = said
    const isRight = said.request_hash === request_hash && typeof risk === 'number' && response === 100 - risk
    return isRight ? `Report consistent: risk ${risk}, posted as response ${response}` : 'Report contradicts itself'
  } catch {
    return 'Report is not valid JSON'
  }
}

/** Computes the hash of the posted report, to compare with the response hash that an explorer shows. */
export const ReportCheck = ({ posted }: { posted: Posted }) => (
  <Check
    about="the posted report"
    run={() => (
      <>
        {resultOf(posted)}. Response hash, to compare in the explorer:{' '}
        <HostileText text={`0x${bytesToHex(keccak_256(utf8ToBytes(posted.report ?? '')))}`} max={66} />
      </>
    )}
  />
)
