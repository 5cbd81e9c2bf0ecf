import { limits } from '@wardline/contract'
import type { Statement } from '../../db/database.ts'
import { AppError } from '../../errors.ts'
import { localActor } from '../audit/audit.ts'
import type { AutoSuspension, Outcome } from '../containment/auto-suspension.ts'
import type { Enforcement } from '../containment/enforcement/enforcement.ts'
import { readControl } from '../instances/control-statements.ts'
import { readTagged } from '../instances/tag-statements.ts'
import { type KillSwitchDeps, resumeInstance } from '../kill-switch/kill-switch.ts'
import {
  endedStatement,
  prolongStatement,
  readDue,
  readPending,
  settledStatement,
  type TimedRow,
  timedStatement,
} from './response-queries.ts'
import type { PendingResponse } from './runner-queries.ts'

/** Responses started per run, and suspensions ended per run. */
const runRows = 500
/** Maximum instances of a response to a tag, far more than the brake of automatic suspensions allows. */
export const maxTagged = 1_000

const results: Record<Outcome, [PendingResponse['state'], string | null]> = {
  suspend: ['done', null],
  already_suspended: ['skipped', 'It was suspended already.'],
  refused: ['refused', 'The brake of automatic suspensions is engaged.'],
  skipped: ['skipped', 'The instance never sent a heartbeat.'],
}

const actor = localActor('system')

interface ResponderParts {
  autoSuspension: AutoSuspension
  enforcement: Enforcement
}

/**
 * Executes the responses of firings. They are stored with the firing, so the next holder of the lease continues after a
 * crash; repeating a response has no further effect.
 */
export class RuleResponder {
  readonly #deps: KillSwitchDeps
  readonly #parts: ResponderParts
  readonly #underWay = new Map<string, Promise<void>>()

  constructor(deps: KillSwitchDeps, parts: ResponderParts) {
    this.#deps = deps
    this.#parts = parts
  }

  /** Starts stored responses. */
  add(responses: readonly PendingResponse[]): void {
    for (const response of responses) {
      const name = `${response.rule_id} ${response.seq} ${response.position}`
      if (this.#underWay.has(name)) continue
      const work = this.#respond(response)
        .catch((fault) => this.#deps.log.warn({ err: fault, rule: response.rule_id }, 'a response of a rule waits'))
        .finally(() => this.#underWay.delete(name))
      this.#underWay.set(name, work)
    }
  }

  /** Periodic job of the lease holder: executes pending responses, and ends suspensions whose time is over. */
  async run(): Promise<void> {
    const { database, clock } = this.#deps
    this.add(await readPending(database.db, runRows))
    for (const row of await readDue(database.db, clock.now(), runRows)) await this.#end(row)
  }

  async whenIdle(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay.values())
  }

  #respond(response: PendingResponse): Promise<void> {
    switch (response.action) {
      case 'suspend':
        return this.#suspendOne(response)
      case 'suspend_tag':
        return this.#suspendTag(response)
      case 'call':
        return this.#call(response)
      case 'alert':
        return this.#settle(response, 'done', null)
    }
  }

  async #settle(response: PendingResponse, state: PendingResponse['state'], detail: string | null): Promise<void> {
    await this.#deps.database.batch([settledStatement(this.#deps.database.db, response, state, detail)])
  }

  async #suspendOne(response: PendingResponse): Promise<void> {
    if (response.instance_id === null) return this.#settle(response, 'skipped', 'The event names no instance.')
    await this.#suspend(response, response.instance_id, (outcome) => [
      settledStatement(this.#deps.database.db, response, ...results[outcome]),
    ])
  }

  async #suspendTag(response: PendingResponse): Promise<void> {
    const ids = await readTagged(this.#deps.database.db, response.target ?? '', maxTagged)
    if (ids.length === 0) return this.#settle(response, 'skipped', 'No instance has the tag.')
    const outcomes = await Promise.all(ids.map((id) => this.#suspend(response, id, () => [])))
    const count = (outcome: Outcome) => outcomes.filter((each) => each === outcome).length
    const [suspended, before, refused] = [count('suspend'), count('already_suspended'), count('refused')]
    const detail = `${suspended} suspended, ${before} were suspended already, ${refused} refused by the brake.`
    await this.#settle(response, refused > 0 ? 'refused' : 'done', detail)
  }

  /** Suspends through the queue of automatic suspensions, and thus under their brake. */
  #suspend(response: PendingResponse, instanceId: string, settle: (outcome: Outcome) => Statement[]): Promise<Outcome> {
    const { database, clock } = this.#deps
    const { rule_id, seq, event_id, duration_ms } = response
    const now = clock.now()
    const endsAt = duration_ms === null ? null : now + duration_ms
    return this.#parts.autoSuspension.answer({
      instanceId,
      keyId: `rule ${rule_id}`,
      eventId: event_id,
      reason: reasonOf(response),
      isRepeat: true,
      rule: {
        id: rule_id,
        settle(outcome, version) {
          const timed =
            version !== undefined && endsAt !== null
              ? [timedStatement(database.db, { instance_id: instanceId, version, rule_id, seq, ends_at: endsAt })]
              : []
          const longer = outcome === 'already_suspended' ? [prolongStatement(database.db, instanceId, endsAt, now)] : []
          return [...timed, ...longer, ...settle(outcome)]
        },
      },
    })
  }

  async #call(response: PendingResponse): Promise<void> {
    const { database, clock } = this.#deps
    const { instance_id, target } = response
    if (instance_id === null) return this.#settle(response, 'skipped', 'The event names no instance.')
    const control = await readControl(database.db, instance_id)
    if (!control) return this.#settle(response, 'skipped', 'The instance never sent a heartbeat.')
    const { enforcement } = this.#parts
    const instance = { id: instance_id, version: control.version }
    const statements = enforcement.callStatements(target ?? '', instance, reasonOf(response), clock.now())
    if (!statements) return this.#settle(response, 'failed', 'WARDLINE_ENFORCEMENT_FILE names no such point.')
    await database.batch([...statements, settledStatement(database.db, response, 'done', null)])
    enforcement.notify()
  }

  /** Resumes an instance that the rule suspended, unless it was resumed or suspended again since. */
  async #end(row: TimedRow): Promise<void> {
    const { database, clock } = this.#deps
    const now = clock.now()
    const ended = endedStatement(database.db, row, now)
    const condition = async (version: number) => {
      if (version !== row.version) throw new AppError('conflict', 'Another suspension holds by now.')
      return [ended]
    }
    const reason = `The suspension by rule ${row.rule_id} expired`
    try {
      await resumeInstance(this.#deps, row.instance_id, actor, condition, reason)
    } catch (fault) {
      if (!(fault instanceof AppError) || fault.code === 'overloaded') throw fault
      await database.batch([ended])
    }
  }
}

/** Returns the reason shown to the agent, in the audit log and in alerts: rule, version and event. */
function reasonOf({ title, version, event_id, rule_id }: PendingResponse): string {
  const end = ` (rule ${rule_id}, version ${version}, event ${event_id})`
  return `Rule: ${title}`.slice(0, limits.reason - end.length) + end
}
