import type { ApprovalPress } from '@wardline/contract'
import type { Deps } from '../../deps.ts'
import { AppError, unknownId } from '../../errors.ts'
import type { RefusalWatch } from '../../http/auth.ts'
import { type DecidingChannel, isPressToken, type Press } from '../alerts/channels/press-token.ts'
import type { RoutingTable } from '../alerts/routing/routing-table.ts'
import { channelActor } from '../audit/audit.ts'
import { type DecisionParts, decideApproval } from './decisions.ts'

export interface PressParts extends DecisionParts {
  routingTable: Pick<RoutingTable, 'deciding' | 'refresh'>
  /** Counts invalid tokens like invalid keys. */
  probing: Pick<RefusalWatch, 'badKey'>
}

interface Pressing {
  address: string | null
  requestId: string | null
}

/**
 * Decides an approval with a button of an alert. Without a valid token the answer is the same whether or not
 * the approval and the channel exist. Throws AppError `not_found`, `too_many_failures`, or as `decideApproval`.
 */
export async function pressApproval(
  deps: Deps,
  parts: PressParts,
  id: string,
  { channel_id: channelId, decision, token }: ApprovalPress,
  { address, requestId }: Pressing,
): Promise<void> {
  const { routingTable, probing } = parts
  const refuse = (): never => {
    const refused = unknownId('approval', id, 'wardline approvals')
    const waitSeconds = probing.badKey(address)
    throw waitSeconds === undefined ? refused : new AppError('too_many_failures', refused.message, waitSeconds)
  }
  const pressed = () => {
    const channel = routingTable.deciding(channelId)
    const press = { approvalId: id, decision, channelId, mark: channel?.mark ?? '' }
    return isPressToken(token, press, deps.secrets.pressKey) ? channel : undefined
  }
  if (!pressed()) return refuse()
  // Another process may have changed the channel. Guesses do not get here, so they cost no query.
  await routingTable.refresh()
  const channel = pressed() ?? refuse()
  await decideByChannel(deps, parts, { approvalId: id, decision }, channel, { address, requestId })
}

/** Decides as a channel. Throws AppError as `decideApproval`. */
export async function decideByChannel(
  deps: Deps,
  parts: DecisionParts,
  { approvalId, decision }: Pick<Press, 'approvalId' | 'decision'>,
  channel: DecidingChannel,
  { address, requestId, telegramUser }: Pressing & { telegramUser?: string },
): Promise<void> {
  const actor = channelActor(channel.name, address, requestId)
  const principal = { keyId: actor.keyId, registers: { owner: `channel ${channel.id}` } }
  const pressed = { channel_id: channel.id, ...(telegramUser === undefined ? {} : { telegram_user: telegramUser }) }
  await decideApproval(deps, parts, approvalId, { decision }, { principal, actor, pressed })
}
