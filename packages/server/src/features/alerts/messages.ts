import type { ChannelTested, MessageQuery, MessageView } from '@wardline/contract'
import { isoTime } from '../../clock.ts'
import type { Db } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { type Actor, recordAction } from '../audit/audit.ts'
import { composeMessage } from './compose.ts'
import type { KnownChannel } from './directory.ts'
import type { Dispatcher } from './dispatcher.ts'
import { findMessage, listMessageRows, reviveMessages } from './message-queries.ts'
import { insertMessages } from './plan-queries.ts'
import { leaseMs } from './tries.ts'

const time = (epochMs: number | null) => (epochMs === null ? null : isoTime(Number(epochMs)))

type Row = NonNullable<Awaited<ReturnType<typeof findMessage>>>

const viewOf = ({ due_at, ...row }: Row): MessageView => ({
  ...row,
  created_at: isoTime(Number(row.created_at)),
  due_at: row.state === 'pending' ? time(due_at) : null,
  delivered_at: time(row.delivered_at),
})

/** One page of the delivery log, newest first; `next` goes back as `before`. */
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
 * Sends a test message the way of every alert, at once and once. Resolves with what the receiver answered, after that
 * was written into the delivery log.
 */
export async function testChannel(deps: Deps, dispatcher: Dispatcher, channel: KnownChannel): Promise<ChannelTested> {
  const now = deps.clock.now()
  const started = deps.clock.monotonic()
  const message = composeMessage({ kind: 'test', now, group: null, alerts: [], count: 0 })
  const lease = { owner: dispatcher.owner, until: now + leaseMs }
  await insertMessages(deps.database.db, channel.id, [message], lease)
  const verdict = await dispatcher.sendNow(channel, {
    id: message.id,
    channel_id: channel.id,
    kind: 'test',
    content: JSON.stringify(message),
    created_at: now,
    attempts: 0,
  })
  return {
    ok: verdict.delivered,
    message_id: message.id,
    status: verdict.status,
    answer: verdict.answer,
    error: verdict.error,
    duration_ms: Math.round(deps.clock.monotonic() - started),
  }
}

/** Tries again what was given up: one message, or all of a channel. Resolves with how many there are. Throws AppError. */
export function replay(deps: Deps, which: { id: string } | { channelId: string }, actor: Actor): Promise<number> {
  const now = deps.clock.now()
  return deps.database.db.transaction().execute(async (trx) => {
    const replayed = await reviveMessages(trx, which, now)
    const target = 'id' in which ? which.id : which.channelId
    if ('id' in which && replayed === 0) {
      if (!(await findMessage(trx, which.id))) throw new AppError('not_found', 'There is no message with this id.')
      throw new AppError('invalid', 'Only a message that was given up can be replayed.')
    }
    if (replayed > 0) {
      await recordAction(
        trx,
        actor,
        { action: 'alert.replay', target, before: null, after: { messages: replayed } },
        now,
      )
    }
    return replayed
  })
}
