import type { ChannelTested, MessageQuery, MessageView } from '@wardline/contract'
import { isoTime } from '../../../clock.ts'
import type { Db } from '../../../db/database.ts'
import type { Deps } from '../../../deps.ts'
import { AppError, unknownId } from '../../../errors.ts'
import { type Actor, recordAction } from '../../audit/audit.ts'
import { noticeMessage } from '../channels/message.ts'
import type { KnownChannel } from '../routing/routing-table.ts'
import { leaseMs, type MessageDelivery } from './message-delivery.ts'
import { findMessage, insertMessages, type LoggedMessage, listMessageRows, reviveMessages } from './queries.ts'

const viewOf = ({ due_at, delivered_at, ...row }: LoggedMessage): MessageView => ({
  ...row,
  created_at: isoTime(row.created_at),
  due_at: row.state === 'pending' ? isoTime(due_at) : null,
  delivered_at: delivered_at === null ? null : isoTime(delivered_at),
})

/** Returns a page of the delivery log, newest first; pass `next` as `before`. */
export async function listMessages(db: Db, query: MessageQuery, limit: number) {
  const { channel_id, state, before } = query
  const filter = {
    ...(channel_id === undefined ? {} : { channel_id }),
    ...(state === undefined ? {} : { state }),
    ...(before === undefined ? {} : { before }),
  }
  const rows = await listMessageRows(db, filter, limit)
  return { messages: rows.map(viewOf), next: rows.length === limit ? rows.at(-1)!.id : null }
}

/**
 * Sends a test message like an alert, in one attempt. Resolves with the receiver's response once it is in the delivery
 * log.
 */
export async function testChannel(
  deps: Deps,
  delivery: MessageDelivery,
  channel: KnownChannel,
): Promise<ChannelTested> {
  const now = deps.clock.now()
  const started = deps.clock.monotonic()
  const message = noticeMessage('test', now)
  const lease = { owner: delivery.owner, until: now + leaseMs }
  await insertMessages(deps.database.db, channel.id, 'own', [message], { lease })
  const verdict = await delivery.attempt(
    { lane: 'own', channel },
    {
      id: message.id,
      channel_id: channel.id,
      kind: 'test',
      content: JSON.stringify(message),
      subject: null,
      created_at: now,
      attempts: 0,
      person_id: null,
    },
  )
  return {
    ok: verdict.delivered,
    message_id: message.id,
    status: verdict.status,
    answer: verdict.answer,
    error: verdict.error,
    duration_ms: Math.round(deps.clock.monotonic() - started),
  }
}

/** Retries one dead message, or all of a channel. Resolves with their number. Throws AppError. */
export function replay(deps: Deps, which: { id: string } | { channelId: string }, actor: Actor): Promise<number> {
  const now = deps.clock.now()
  return deps.database.db.transaction().execute(async (trx) => {
    const replayed = await reviveMessages(trx, which, now)
    const target = 'id' in which ? which.id : which.channelId
    if ('id' in which && replayed === 0) {
      if (!(await findMessage(trx, which.id))) throw unknownId('message', which.id, 'wardline channels log')
      throw new AppError('invalid', 'Only an undelivered message (state dead) can be sent again.')
    }
    if (replayed > 0) {
      const action = { action: 'alert.replay', target, before: null, after: { messages: replayed } }
      await recordAction(deps.database, trx, actor, action, now)
    }
    return replayed
  })
}
