import { hourMs } from '../../clock.ts'
import { pagesOf } from '../../db/portions.ts'
import { claimRun, readRun } from '../../db/runs.ts'
import type { Deps } from '../../deps.ts'
import { SharedRun } from '../../shared-run.ts'
import { modelProvenStatement, readCallers } from '../instances/drill-statements.ts'
import { modelForMs } from '../instances/enforcing-levers.ts'
import { type ModelCells, modelAnswersStatement, readCallersOf, readRunning } from './queries.ts'

const pageRows = 1_000
const runName = 'model_drill'

/** Sends the scheduled drill of model gateways. One process does it, once per period: a gateway answers for all agents. */
export async function drillModels({ config, clock, database, bus }: Deps): Promise<void> {
  if (config.drillHours === null) return
  const now = clock.now()
  if (await claimRun(database.db, runName, now - config.drillHours * hourMs, now))
    bus.publishNotice({ action: 'drill' })
}

/**
 * Answers drills for the model gateway of this process. It hears of them as it does of kills, at once over the bus and
 * within a second from the database, so that the time of its answer shows which of the two works.
 */
export class ModelDrills {
  readonly #deps: Deps
  /** Returns how many calls of an agent are open; undefined without a gateway. */
  #openCalls: ((instanceId: string) => number) | undefined
  /** The last agent that was answered for, by running drill. */
  #answered = new Map<string, string>()
  #scheduledAt = 0
  /** A notice during a run may be about a drill that the run did not see. */
  readonly #runs = new SharedRun(() => this.#answerAll())

  constructor(deps: Deps) {
    this.#deps = deps
    deps.bus.onNotice(({ action }) => {
      if (action !== 'drill') return
      this.run().catch((fault) => deps.log.warn({ err: fault }, 'a drill of the gateway waits for the next turn'))
    })
  }

  /** Answers drills from now on; undefined: no longer. */
  serve(openCalls: ((instanceId: string) => number) | undefined): void {
    this.#openCalls = openCalls
  }

  async run(): Promise<void> {
    if (this.#openCalls !== undefined) await this.#runs.get()
  }

  async #answerAll(): Promise<void> {
    const { db } = this.#deps.database
    const [running, scheduledAt] = await Promise.all([readRunning(db), readRun(db, runName)])
    const ids = new Set(running.map(({ id }) => id))
    for (const id of this.#answered.keys()) if (!ids.has(id)) this.#answered.delete(id)
    for (const { id, ready_at } of running) if (ready_at !== null) await this.#answer(id)
    if (scheduledAt === null || scheduledAt === this.#scheduledAt) return
    await this.#answerSchedule()
    this.#scheduledAt = scheduledAt
  }

  async #answer(drillId: string): Promise<void> {
    const { database, clock } = this.#deps
    const since = clock.now() - modelForMs
    const pages = pagesOf(pageRows, (last?: string) =>
      readCallersOf(database.db, { drillId, since, after: last ?? this.#answered.get(drillId) ?? '' }, pageRows),
    )
    for await (const ids of pages) {
      const now = clock.now()
      const cells = ids.map((id): ModelCells => [id, this.#openCalls?.(id) ?? 0])
      await database.batch([
        modelAnswersStatement(database, drillId, cells, now),
        modelProvenStatement(database, ids, now),
      ])
      this.#answered.set(drillId, ids.at(-1)!)
    }
  }

  async #answerSchedule(): Promise<void> {
    const { database, clock } = this.#deps
    const since = clock.now() - modelForMs
    const pages = pagesOf(pageRows, (last?: string) => readCallers(database.db, { since, after: last ?? '' }, pageRows))
    for await (const ids of pages) await database.batch([modelProvenStatement(database, ids, clock.now())])
  }
}
