import { type Attestation, type AttestationByOther, attestationText, type TrustSummary } from '@wardline/contract'
import { sha256Hex } from '../parts/sha256.ts'
import { HostileText } from '../ui/hostile-text.tsx'
import { DataTable } from '../ui/table.tsx'
import { Account, Check, Directed, Noted, networkText, Outside, shortened } from './parts.tsx'
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

/** A whole number with its last digits as decimals, such as 99.77 for 9977 with two. */
function decimalText(value: string, decimals: number): string {
  const digits = value.replace('-', '').padStart(decimals + 1, '0')
  const whole = digits.slice(0, digits.length - decimals)
  return `${value.startsWith('-') ? '-' : ''}${whole}${decimals > 0 ? `.${digits.slice(-decimals)}` : ''}`
}

/** What is attested. Texts are the attester's; without the fields of a known schema there is only its id. */
function Claim({ item: { sink, namespace, tag, period, schema } }: { item: AttestationByOther }) {
  const texts = [namespace, tag, period].filter((text) => text)
  return (
    <div className={css.wide}>
      {texts.length > 0 ? <HostileText text={texts.join(' · ')} /> : 'no tags'}
      {sink === 'eas' && namespace === undefined && (
        <p className="quiet" title={schema}>
          unknown schema <HostileText text={shortened(schema ?? '')} />
        </p>
      )}
    </div>
  )
}

export function AttestationsByOthers({ items }: { items: readonly AttestationByOther[] }) {
  const network = items[0]?.network
  return (
    <DataTable
      title="Attestations by others"
      note={
        <>
          by other accounts, which the operators of this fleet chose
          {network && (
            <>
              , on <HostileText text={networkText(network)} />
            </>
          )}
        </>
      }
      empty="The accounts that the operators chose have attested nothing about this fleet."
      rows={items}
      rowKey={({ sink, attester, uid }) => `${sink} ${attester} ${uid}`}
      columns={[
        {
          name: 'When',
          kind: 'word',
          cell: ({ at, seen_at }) =>
            at === null ? (
              <Noted note="seen" title={seen_at}>
                {seen_at.slice(0, 10)}
              </Noted>
            ) : (
              <span title={at}>{at.slice(0, 10)}</span>
            ),
        },
        { name: 'Attestation', cell: (item) => <Claim item={item} /> },
        {
          name: 'Value',
          cell: ({ value, decimals = 0 }) =>
            value === undefined ? (
              <span className="quiet">none</span>
            ) : (
              <Noted note="(as the attester defines it)">
                <HostileText text={decimalText(value, decimals)} />
              </Noted>
            ),
        },
        { name: 'Signed by', cell: ({ attester, network }) => <Account address={attester} network={network} /> },
        {
          name: 'Proof',
          cell: ({ sink, uid, explorer_url, attestation_url }) => (
            <span className="mono" title={uid}>
              {places[sink]}:{' '}
              <Outside href={explorer_url} text={sink === 'eas' ? 'transaction' : `registry, index ${uid}`} />{' '}
              {attestation_url && <Outside href={attestation_url} text="attestation" />}
            </span>
          ),
        },
      ]}
    />
  )
}
