import { type Attestation, attestationText, type TrustSummary } from '@wardline/contract'
import { sha256Hex } from '../parts/sha256.ts'
import { HostileText } from '../ui/hostile-text.tsx'
import { DataTable } from '../ui/table.tsx'
import { Account, Check, Directed, Noted, networkText, Outside } from './parts.tsx'
import css from './trust.module.css'

/** Computes the hash of a published attestation. Only its signature or the chain shows whether the hash was changed too. */
function HashCheck({ item }: { item: Attestation }) {
  const run = () =>
    `0x${sha256Hex(attestationText(item))}` === item.hash
      ? 'Hash matches (computed in your browser)'
      : 'Hash does NOT match (computed in your browser)'
  return <Check about={`the hash of ${item.period}, ${item.tag}`} run={run} />
}

const places = { eas: 'EAS', feedback: 'feedback', validation: 'validation' }

/** Where an attestation is on the chain, with the pages that show it. */
function OnChain({ on_chain: { network, sink, ...on_chain } }: { on_chain: NonNullable<Attestation['on_chain']> }) {
  return (
    <>
      on {network && <HostileText text={`${network.name}${network.is_test_network ? ' (test network)' : ''}`} />} (
      {places[sink ?? 'eas']}): <Outside href={on_chain.explorer_url} text="transaction" />{' '}
      {on_chain.attestation_url && <Outside href={on_chain.attestation_url} text="attestation" />}
    </>
  )
}

const Proof = ({ item }: { item: Attestation }) => (
  <div className="mono" title={item.hash}>
    <HashCheck item={item} />
    {item.hash_preview} {item.on_chain ? <OnChain on_chain={item.on_chain} /> : '· not on-chain'}
  </div>
)

/** Who signed an attestation. All signers are of this service, which may have changed its wallet. */
function Signer({ item: { on_chain, off_chain }, wallet }: { item: Attestation; wallet: string | null }) {
  const attester = on_chain?.attester ?? off_chain?.attester
  if (!attester) return <span className="quiet">not signed</span>
  const isPublished = attester.toLowerCase() === wallet?.toLowerCase()
  const other = on_chain ? 'an earlier wallet of this fleet' : 'a key of this deployment, which names no operator'
  return (
    <>
      <Noted note={`self: ${isPublished ? 'the wallet of this fleet' : other}`}>
        <Account address={attester} network={on_chain?.network} />
      </Noted>
      {off_chain && (
        <p>
          <a href={`/api/public/trust/attestations/${encodeURIComponent(off_chain.uid)}`} title={off_chain.attester}>
            Signed file
          </a>
        </p>
      )}
    </>
  )
}

export function Attestations({ data: { attestations, identity } }: { data: TrustSummary }) {
  const network = attestations.find(({ on_chain }) => on_chain)?.on_chain?.network
  return (
    <DataTable
      label="Attestations"
      title="Attestations"
      note={
        <>
          issued weekly by the operators of this fleet
          {network && (
            <>
              , on <HostileText text={networkText(network)} />
            </>
          )}
        </>
      }
      empty="No attestations yet. The first one is issued once an agent is monitored, then one each week."
      rows={attestations}
      rowKey={({ hash_preview, at }) => hash_preview + at}
      columns={[
        { name: 'Week', kind: 'word', cell: ({ at, period }) => <span title={at}>{period}</span> },
        {
          name: 'Attestation',
          cell: ({ title, summary }) => (
            <div className={css.wide}>
              <HostileText text={title} />
              <p className="quiet">
                <HostileText text={summary} />
              </p>
            </div>
          ),
        },
        { name: 'Score', cell: ({ score }) => <Directed score={score} best={100} /> },
        { name: 'Signed by', cell: (item) => <Signer item={item} wallet={identity.wallet_address} /> },
        { name: 'Proof', cell: (item) => <Proof item={item} /> },
      ]}
    />
  )
}
