import type { AttestationByOther, TrustSummary } from '@wardline/contract'
import { isoTime, isoTimeOrNull } from '../../clock.ts'
import { attestationUrl, networkOf, transactionUrl } from '../../config/known-chains.ts'
import type { OtherAttestationsTable } from '../../db/schema/chain.ts'
import type { Deps } from '../../deps.ts'
import { readOthers } from '../chain/chain-statements.ts'
import { shownOthers } from '../chain/known-contracts.ts'
import type { readKnownIdentity } from '../chain/known-identity.ts'

/** Ten accounts, of each the newest ten at EAS and in the reputation registry. */
const maxRows = 200

function itemOf(row: OtherAttestationsTable, attester: string): AttestationByOther {
  const { chain_id, sink, contract, uid, at, seen_at, tx_hash, schema, hash, namespace, tag, period, value } = row
  const network = networkOf(chain_id)
  const attestation_url = sink === 'eas' ? attestationUrl(chain_id, contract, uid) : undefined
  const known = { attestation_url, schema, hash, namespace, tag, period, value, decimals: row.decimals }
  return {
    ...{ sink, attester, uid, at: isoTimeOrNull(at), seen_at: isoTime(seen_at), contract, network },
    explorer_url: tx_hash === null ? `${network.explorer_url}/address/${contract}` : transactionUrl(chain_id, tx_hash),
    ...Object.fromEntries(Object.entries(known).filter(([, field]) => field !== null && field !== undefined)),
  }
}

/** Reads what others attest from the database. Empty when the operator named nobody. */
export async function attestationsByOthers(
  { config, database }: Pick<Deps, 'config' | 'database'>,
  identity: Awaited<ReturnType<typeof readKnownIdentity>>,
  now: number,
): Promise<Pick<TrustSummary, 'attestations_by_others'>> {
  const { trustOtherAttesters: attesters } = config
  if (attesters === undefined) return {}
  const rows = await readOthers(database.db, shownOthers(config, identity), now, maxRows)
  const spelled = (address: string) => attesters.find((attester) => attester.toLowerCase() === address) ?? address
  return { attestations_by_others: rows.map((row) => itemOf(row, spelled(row.attester))) }
}
