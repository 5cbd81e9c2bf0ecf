import { channelKinds } from '@wardline/contract'
import type { Deps } from '../../../deps.ts'
import type { MessageDelivery } from '../delivery/message-delivery.ts'
import { hasDueMessage } from '../delivery/queries.ts'
import type { Receivers } from '../delivery/receivers.ts'
import { type Lane, lanes } from '../outbox/alert.ts'
import type { KnownChannel, RoutingTable } from '../routing/routing-table.ts'
import type { PersonalMail } from './personal-mail.ts'
import { createPlanner } from './planner.ts'
import { Turns } from './turns.ts'

interface DispatcherParts {
  table: Pick<RoutingTable, 'current' | 'personal'>
  personalMail: PersonalMail
  receivers: Receivers
  delivery: MessageDelivery
}

/** Plans and sends, in any number of processes. */
export class Dispatcher {
  readonly #deps: Pick<Deps, 'database' | 'clock' | 'log'>
  readonly #parts: DispatcherParts
  readonly #planner: ReturnType<typeof createPlanner>
  readonly #turns: Record<Lane, Turns>
  #isClosing = false

  constructor(deps: Pick<Deps, 'database' | 'clock' | 'log'>, parts: DispatcherParts) {
    this.#deps = deps
    this.#parts = parts
    this.#planner = createPlanner(deps, parts.table)
    const turnsOf = (lane: Lane) => new Turns(() => this.#takeTurn(lane), this.#logFault)
    // One loop per lane, so that the service's own alerts do not wait for a flood of reports.
    this.#turns = { own: turnsOf('own'), reported: turnsOf('reported') }
  }

  /** Schedules a turn; several calls share one. */
  wake(): void {
    for (const lane of lanes) this.#turns[lane].wake()
  }

  /** Runs one turn of each lane: plans new alerts, flushes due groups, starts to send due messages. */
  async run(): Promise<void> {
    await Promise.all(lanes.map((lane) => this.#turns[lane].run()))
  }

  async #takeTurn(lane: Lane): Promise<void> {
    const known = this.#parts.table.current.channels
    if (known.length === 0 || this.#isClosing) return
    const progress = await this.#parts.receivers.read()
    const channels = known.filter(({ id }) => progress.has(id))
    for (const channel of channels) {
      const from = progress.get(channel.id)!.planned[lane]
      // A channel whose planning fails must not delay the others.
      const hasMore = await this.#planner.plan(lane, channel, from).catch(this.#logFault)
      if (hasMore) this.#turns[lane].wake()
      // Start sending before the other channels are planned.
      if (hasMore) await this.#sendDue(lane, channel)
    }
    await this.#planner.flushDue(
      lane,
      channels.filter(({ type }) => channelKinds[type].audience === 'people'),
    )
    const { personal } = this.#parts.table
    if (lane === 'reported' && personal && (await this.#parts.personalMail.plan(personal).catch(this.#logFault)))
      this.#turns.reported.wake()
    for (const channel of channels) await this.#sendDue(lane, channel)
  }

  async #sendDue(lane: Lane, channel: KnownChannel): Promise<void> {
    // Skip paused receivers without a query.
    if (lane === 'reported' && this.#parts.receivers.isPaused(channel.id)) return
    const now = this.#deps.clock.now()
    if (await hasDueMessage(this.#deps.database.db, channel.id, lane, now))
      await this.#parts.delivery.send({ lane, channel })
  }

  readonly #logFault = (fault: unknown): void => {
    this.#deps.log.error({ err: fault }, 'alerts are delayed; they are sent as soon as the fault is over')
  }

  /** Resolves when nothing is planned or sent. */
  async whenIdle(): Promise<void> {
    await Promise.all(lanes.map((lane) => this.#turns[lane].whenIdle()))
    await this.#parts.delivery.whenIdle()
  }

  /** Starts nothing new, gives running attempts a moment to end, and leaves the rest to the next process. */
  async close(graceMs: number): Promise<void> {
    this.#isClosing = true
    for (const lane of lanes) this.#turns[lane].close()
    const turns = lanes.map((lane) => this.#turns[lane].whenIdle().catch(this.#logFault))
    await Promise.all([...turns, this.#parts.delivery.close(graceMs)])
  }
}
