import type { TrustSummary } from '@wardline/contract'
import { HostileText } from '../ui/hostile-text.tsx'
import { Panel } from '../ui/panel.tsx'
import { Facts } from '../ui/table.tsx'
import { Account, Noted, networkText, Outside } from './parts.tsx'
import css from './trust.module.css'

/** Statuses of an identity: the word for people, and what it means. */
const statuses: Record<string, readonly [word: string, meaning: string]> = {
  live: [
    'registered',
    'The registry on the chain names the wallet of this fleet as the owner or the wallet of this agent.',
  ],
  unverified: ['unverified', 'The registry on the chain names another wallet: the agent may belong to another party.'],
  claimed: [
    'claimed',
    'The operators state this agent id, and the registry was not asked: anyone can state the id of another agent.',
  ],
  pending: ['pending', 'This fleet has no agent id on a chain.'],
}

export function Identity({ data: { identity, chain } }: { data: TrustSummary }) {
  const { agent_id, network, register_tx_url, registry_explorer_url, status, wallet_address } = identity
  const agent = agent_id !== null && (
    <Noted
      note={
        <>
          in the <Outside href={registry_explorer_url} text="registry" />
          {network && (
            <>
              {' '}
              on <HostileText text={networkText(network)} />
            </>
          )}
          {register_tx_url !== null && (
            <>
              {' '}
              (<Outside href={register_tx_url} text="registration" />)
            </>
          )}
        </>
      }
    >
      <HostileText text={agent_id} max={78} />
    </Noted>
  )
  return (
    <Panel title="Identity" note={<HostileText text={chain.erc8004_label} />}>
      <div className={css.checks}>
        <Facts
          facts={[
            ['Status', <Noted note={statuses[status]?.[1]}>{statuses[status]?.[0] ?? status}</Noted>],
            ['Agent', agent],
            ['Wallet', wallet_address !== null && <Account address={wallet_address} network={network} />],
          ]}
        />
        <details className={css.method}>
          <summary>What the statuses mean</summary>
          <Facts facts={Object.values(statuses)} />
        </details>
      </div>
    </Panel>
  )
}
