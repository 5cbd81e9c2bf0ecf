import type { Static } from 'typebox'
import { access, define } from './endpoint.ts'
import { Count, choice, nullable, Uuid } from './fields.ts'
import { Type } from './type.ts'

const DropAction = choice(
  ['replace', 'give_up'],
  'replace: an empty transaction with the same nonce is sent, which costs its fees; give_up: nothing is sent, because the transaction was not sent either, or its nonce cannot be reached',
)

export const ChainDropPlan = Type.Object({
  id: Uuid,
  kind: Type.String({ description: 'What the transaction is, such as attest or register' }),
  nonce: nullable({ ...Count, description: 'null before it is signed' }),
  counted: nullable({
    ...Count,
    description: 'Transactions of the wallet, as the node counts them; null if not asked',
  }),
  action: DropAction,
  max_cost: nullable(
    Type.String({ description: 'Maximum fees of the empty transaction, in the currency of the chain' }),
  ),
})
export type ChainDropPlan = Static<typeof ChainDropPlan>

const DropParams = Type.Object({ id: Uuid })
const failures = {
  404: 'No wallet is configured, or it has no such transaction',
  409: 'The transaction is settled, in a block or dropped already, or has another plan by now',
  503: 'The node of TRUST_RPC_URL gives no valid answer',
}

export const chainEndpoints = {
  planChainDrop: define({
    method: 'GET',
    path: '/api/chain/transactions/:id/drop',
    access: access.admins,
    feature: 'chain',
    summary: 'Show how an unconfirmed transaction of the wallet would be dropped, and what that costs',
    params: DropParams,
    status: 200,
    reply: ChainDropPlan,
    failures,
  }),
  dropChainTransaction: define({
    method: 'POST',
    path: '/api/chain/transactions/:id/drop',
    access: access.admins,
    feature: 'chain',
    summary: 'Drop an unconfirmed transaction of the wallet, by the action that the plan shows',
    params: DropParams,
    body: Type.Object({ action: DropAction }, { additionalProperties: false }),
    status: 200,
    reply: Type.Object({ ok: Type.Literal(true), id: Uuid, action: DropAction }),
    failures,
  }),
}
