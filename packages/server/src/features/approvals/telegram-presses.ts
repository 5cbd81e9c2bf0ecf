import { createHash } from 'node:crypto'
import { claimRun, recordRun } from '../../db/runs.ts'
import type { Deps } from '../../deps.ts'
import type { Egress } from '../../egress/egress.ts'
import { AppError } from '../../errors.ts'
import { answerFields } from '../alerts/channels/http-receiver.ts'
import { isPressToken, readCallback } from '../alerts/channels/press-token.ts'
import { decides, type RoutingTable } from '../alerts/routing/routing-table.ts'
import { receiverMark } from '../alerts/routing/sealed-settings.ts'
import type { DecisionParts } from './decisions.ts'
import { decideByChannel } from './press.ts'

type Parts = DecisionParts & { routingTable: Pick<RoutingTable, 'current' | 'refresh'> }
type Channel = RoutingTable['current']['channels'][number]

/** How long a request for presses waits at Telegram; an answer takes at most 15 s. */
const waitSeconds = 10
/** A bot answers one process at a time. After a crash another one continues after this time. */
const claimMs = 16_000

/** Loaded on first use, because TLS takes memory. */
const openGuarded = async (): Promise<Egress> =>
  (await import('../../egress/open-egress.ts')).createEgress({ guarded: true, allow: [] })

const settingsOf = (channel: Channel) =>
  channel.type === 'telegram' && decides(channel) && 'chat_id' in channel.settings ? channel.settings : undefined

interface Callback {
  id: string
  from: { id: number }
  data?: unknown
  message?: { message_id: number; chat: { id: number; username?: string } }
}

/** Reads presses on buttons of Telegram messages, and decides. Only users whom the channel names decide. */
export class TelegramPresses {
  readonly #deps: Deps
  readonly #parts: Parts
  readonly #openEgress: () => Promise<Egress>
  #egress: Promise<Egress> | undefined
  /** By bot: the first update that was not read yet. After a restart some are read again, and decide nothing. */
  readonly #offsets = new Map<string, number>()

  constructor(deps: Deps, parts: Parts, openEgress: () => Promise<Egress> = openGuarded) {
    this.#deps = deps
    this.#parts = parts
    this.#openEgress = openEgress
  }

  /** Periodic job. Several processes may run it. */
  async run(stopping?: AbortSignal): Promise<void> {
    const tokens = this.#parts.routingTable.current.channels.flatMap((channel) => settingsOf(channel)?.token ?? [])
    await Promise.all([...new Set(tokens)].map((token) => this.#read(token, stopping)))
  }

  async #read(token: string, stopping: AbortSignal | undefined): Promise<void> {
    const { database, clock } = this.#deps
    const bot = createHash('sha256').update(token).digest('hex').slice(0, 16)
    const name = `presses of telegram bot ${bot}`
    const now = clock.now()
    if (!(await claimRun(database.db, name, now - claimMs, now))) return
    const offset = this.#offsets.get(bot)
    const asked = {
      timeout: waitSeconds,
      allowed_updates: ['callback_query'],
      ...(offset === undefined ? {} : { offset }),
    }
    const updates = await this.#call(token, 'getUpdates', asked, stopping)
    // The claim then delays the next attempt.
    if (!Array.isArray(updates)) return
    for (const update of updates) {
      this.#offsets.set(bot, Number(update.update_id) + 1)
      if (update.callback_query) await this.#decide(token, update.callback_query)
    }
    await recordRun(database.db, name, clock.now() - claimMs - 1)
  }

  /** Calls a method of the Bot API. Resolves with its result; undefined if it failed, which the next run repeats. */
  async #call(token: string, method: string, body: object, signal?: AbortSignal) {
    const url = `https://api.telegram.org/bot${token}/${method}`
    const request = { url, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }
    this.#egress ??= this.#openEgress()
    const egress = await this.#egress
    const answer = await egress.post(request, signal).catch(() => undefined)
    if (answer?.status === 200) return answerFields(answer.body).result
    const status = answer?.status ?? null
    if (!signal?.aborted) this.#deps.log.warn({ method, status }, 'Telegram did not answer a request about buttons')
    return undefined
  }

  async #decide(token: string, callback: Callback): Promise<void> {
    const { text, isOver } = await this.#outcome(token, callback)
    await this.#call(token, 'answerCallbackQuery', {
      callback_query_id: callback.id,
      text: text.slice(0, 200),
      show_alert: true,
    })
    const { message } = callback
    if (!isOver || !message) return
    const empty = { chat_id: message.chat.id, message_id: message.message_id, reply_markup: { inline_keyboard: [] } }
    await this.#call(token, 'editMessageReplyMarkup', empty)
  }

  async #outcome(token: string, { from, data, message }: Callback): Promise<{ text: string; isOver: boolean }> {
    const { secrets, log } = this.#deps
    const read = readCallback(data)
    await this.#parts.routingTable.refresh()
    const channel = this.#parts.routingTable.current.channels.find((one) => {
      const settings = settingsOf(one)
      if (!read || !message || settings?.token !== token) return false
      const chats = [String(message.chat.id), `@${message.chat.username}`]
      const press = { ...read, channelId: one.id, mark: receiverMark(one) }
      return chats.includes(settings.chat_id) && isPressToken(read.token, press, secrets.pressKey)
    })
    const user = String(from.id)
    if (!read || !channel || !settingsOf(channel)?.approvers?.includes(user)) {
      log.warn({ telegramUser: user, channel: channel?.id }, 'a press on a button was refused')
      return { text: 'You may not decide this.', isOver: false }
    }
    const deciding = { id: channel.id, name: channel.name, mark: receiverMark(channel) }
    try {
      await decideByChannel(this.#deps, this.#parts, read, deciding, {
        address: null,
        requestId: null,
        telegramUser: user,
      })
      return { text: read.decision === 'approve' ? 'Approved.' : 'Denied.', isOver: true }
    } catch (fault) {
      if (fault instanceof AppError) return { text: fault.message, isOver: true }
      log.error({ err: fault, channel: channel.id }, 'a press on a button failed')
      return { text: 'The decision failed: decide in the dashboard.', isOver: false }
    }
  }
}
