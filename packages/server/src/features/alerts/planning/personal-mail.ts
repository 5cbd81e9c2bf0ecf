import { mailLimits } from '@wardline/contract'
import { hourMs } from '../../../clock.ts'
import type { Trx } from '../../../db/database.ts'
import type { Deps } from '../../../deps.ts'
import { readOperatorTagsOf } from '../../instances/tag-statements.ts'
import type { MailRecipients } from '../../people/mail-recipients.ts'
import { countMailsSince, insertMessages } from '../delivery/queries.ts'
import {
  advanceMailed,
  holdNotices,
  insertNotices,
  type NoticeRow,
  readOfTeam,
  readUnmailed,
  readWaitingFor,
  takeNotices,
} from '../outbox/notice-queries.ts'
import type { PlannedAlert } from '../outbox/queries.ts'
import { lockChannel } from '../routing/queries.ts'
import type { KnownChannel, RoutingTable } from '../routing/routing-table.ts'
import { addContextForPeople } from './alert-context.ts'
import { composePersonal, shownAlerts } from './compose.ts'
import { isSilenced } from './grouping.ts'

/** Alerts looked through per turn. */
const batchAlerts = 200
/** How long further alerts join a mail, such as those that an operator assigns one after another. */
const collectMs = 10_000
/** Alerts by tag that wait for a person. Further ones are not mailed: the queue has them, and a mail lists ten. */
const maxWaiting = 1_000
/** What waited longer is of a time without a mail channel. */
const staleMs = 2 * hourMs

/** Plans mails to people, as messages of the channel whose server sends them. */
export class PersonalMail {
  readonly #deps: Pick<Deps, 'database' | 'clock'>
  readonly #table: Pick<RoutingTable, 'current'>
  readonly #recipients: Pick<MailRecipients, 'withTags' | 'find'>

  constructor(
    deps: Pick<Deps, 'database' | 'clock'>,
    {
      table,
      recipients,
    }: { table: Pick<RoutingTable, 'current'>; recipients: Pick<MailRecipients, 'withTags' | 'find'> },
  ) {
    this.#deps = deps
    this.#table = table
    this.#recipients = recipients
  }

  /** Looks through new alerts, and writes the mails that are due. Resolves with whether there are more alerts. */
  async plan(channel: KnownChannel): Promise<boolean> {
    const hasMore = await this.#lookThrough()
    const { database, clock } = this.#deps
    for (const { person_id, since } of await readWaitingFor(database.db)) {
      if (since > clock.now() - collectMs) continue
      await this.#mail(channel, person_id)
    }
    return hasMore
  }

  async #lookThrough(): Promise<boolean> {
    const { db } = this.#deps.database
    const { from, to, rows } = await readUnmailed(db, batchAlerts)
    if (from === to) return false
    const notices = await this.#noticesOf(rows)
    await db.transaction().execute(async (trx) => {
      if (await advanceMailed(trx, from, to)) await insertNotices(trx, notices)
    })
    return rows.length === batchAlerts
  }

  /** Returns for whom alerts are by the tags that they chose. */
  async #noticesOf(rows: readonly PlannedAlert[]): Promise<NoticeRow[]> {
    const { database, clock } = this.#deps
    const now = clock.now()
    const { silences } = this.#table.current
    const heard = rows.filter((row) => now - row.created_at < hourMs && !isSilenced(row, silences, now))
    const agents = await readOperatorTagsOf(database.db, [
      ...new Set(heard.flatMap(({ instance_id }) => instance_id ?? [])),
    ])
    if (agents.size === 0) return []
    const waiting = new Map((await readWaitingFor(database.db)).map((row) => [row.person_id, row.count]))
    return (await this.#recipients.withTags()).flatMap(({ id: person_id, tags, team }) => {
      const room = maxWaiting - (waiting.get(person_id) ?? 0)
      return heard
        .flatMap(({ seq, instance_id }): NoticeRow[] => {
          const own = agents.get(instance_id ?? '') ?? []
          const tag = own.find((one) => tags.includes(one))
          if (tag === undefined || (team && !own.some((one) => team.includes(one)))) return []
          return [{ person_id, alert_seq: seq, tag, at: now, held: 0 }]
        })
        .slice(0, Math.max(0, room))
    })
  }

  /** Writes the mail of a person, unless they had enough within the hour. */
  async #mail(channel: KnownChannel, personId: string): Promise<void> {
    const { database, clock } = this.#deps
    const now = clock.now()
    if ((await countMailsSince(database.db, personId, now - hourMs)) >= mailLimits.perHour) {
      return holdNotices(database.db, personId)
    }
    const recipient = await this.#recipients.find(personId)
    await database.db.transaction().execute(async (trx) => {
      // Its lock lets processes take turns, so that the limit is exact.
      if (!(await lockChannel(trx, channel.id))) return
      if ((await countMailsSince(trx, personId, now - hourMs)) >= mailLimits.perHour) return
      const notices = (await takeNotices(trx, personId)).filter(({ at }) => now - at < staleMs)
      if (recipient) await this.#write(trx, channel, recipient, notices)
    })
  }

  async #write(
    trx: Trx,
    channel: KnownChannel,
    { id, team, assigned, tags }: NonNullable<Awaited<ReturnType<MailRecipients['find']>>>,
    notices: readonly NoticeRow[],
  ): Promise<void> {
    const tagOf = new Map(notices.map(({ alert_seq, tag }) => [alert_seq, tag]))
    const rows = (await readOfTeam(trx, [...tagOf.keys()], team)).filter(({ seq, status, assignee }) => {
      const tag = tagOf.get(seq) ?? null
      return status !== 'resolved' && (tag === null ? assigned && assignee === id : tags.includes(tag))
    })
    if (rows.length === 0) return
    const chosen = new Set(rows.flatMap(({ seq }) => tagOf.get(seq) ?? []))
    const listed = rows.slice(-shownAlerts).map(({ status: _status, assignee: _assignee, ...row }) => row)
    const message = composePersonal({
      now: this.#deps.clock.now(),
      alerts: await addContextForPeople(trx, listed),
      count: rows.length,
      personal: {
        assigned: rows.some(({ seq }) => (tagOf.get(seq) ?? null) === null),
        tags: [...chosen].sort(),
        heldBack: notices.some(({ held }) => held === 1),
      },
    })
    await insertMessages(trx, channel.id, 'reported', [message], { personId: id })
  }
}
