import type { Network } from '@wardline/contract'
import { type ReactNode, useState } from 'react'
import { Button } from '../ui/button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'

/** An address of the summary. It is a link only if it is an https URL. */
export function Outside({ href, text }: { href: string | null | undefined; text: string }) {
  if (!href || !/^https:\/\//.test(href)) return <HostileText text={text} max={80} />
  return (
    <a href={href} rel="noreferrer noopener" target="_blank">
      <HostileText text={text} max={80} />
      {'\u00a0↗'}
    </a>
  )
}

/** A value with a quiet note behind it. */
export function Noted({ note, title, children }: { note: ReactNode; title?: string | undefined; children: ReactNode }) {
  return (
    <>
      {children}{' '}
      <span className="quiet" title={title}>
        {note}
      </span>
    </>
  )
}

/** A score with the direction of its scale: those of risk and of security differ. */
export const Directed = ({ score, best }: { score: number | null; best: 0 | 100 }) =>
  score === null ? 'unknown' : <Noted note={`(${best === 0 ? 'risk' : 'security'}, ${best} is best)`}>{score}</Noted>

/** Runs a check in this browser and shows its result in place of the button. */
export function Check({ about, run }: { about: string; run(): ReactNode | Promise<ReactNode> }) {
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

/** Name of a chain, with what a reader must know of a test network. */
export const networkText = ({ name, is_test_network }: Network): string =>
  is_test_network ? `${name}, a test network: entries there cost nothing and can disappear` : name

/** An address or hash, cut in the middle. */
export const shortened = (hex: string): string => `${hex.slice(0, 6)}…${hex.slice(-4)}`

/** An account on a chain, cut in the middle, with the whole address on hover and its page at the explorer. */
export function Account({ address, network }: { address: string; network: Network | undefined }) {
  return (
    <span className="mono" title={address}>
      <Outside href={network && `${network.explorer_url}/address/${address}`} text={shortened(address)} />
    </span>
  )
}
