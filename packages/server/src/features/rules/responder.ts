import { limits } from '@wardline/contract'
import type { Statement } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import { AppError, DatabaseError } from '../../errors.ts'
import { localActor } from '../audit/audit.ts'
import type { AutoSuspension, SuspensionOutcome } from '../auto-suspension/auto-suspension.ts'
import { holdUntil, type KillSwitchParts, resumeInstance } from '../control/kill-switch.ts'
import type { Enforcement } from '../enforcement/enforcement.ts'
import { readControl } from '../instances/control-statements.ts'
import { readTagged } from '../instances/tag-statements.ts'
import { mayResume } from '../suspensions/holds.ts'
import { type Expired, endStatements, holdTimed, readExpired } from '../suspensions/suspension-statements.ts'
import { readPending, settledStatement } from './response-queries.ts'
import type { PendingResponse } from './runner-queries.ts'

/** Responses started per run, and suspensions ended per run. */
const runRows = 500
/** Maximum instances of a response to a tag, far more than the brake of automatic suspensions allows. */
export const maxTagged = 1_000

const results: Record<SuspensionOutcome, [PendingResponse['state'], string | null]> = {
  suspend: ['done', null],
  take_over: ['done', 'It was suspended for a time; it is now suspended until a person resumes it.'],
  extend: ['done', 'It was already suspended; the suspension now ends later.'],
  already_suspended: ['skipped', 'It was already suspended.'],
  refused: ['refused', 'The brake of automatic suspensions is engaged.'],
  skipped: ['skipped', 'The instance never sent a heartbeat.'],
}

const actor = localActor('system')

interface ResponderParts extends KillSwitchParts {
  autoSuspension: AutoSuspension
  enforcement: Enforcement
}

/**
 * Executes the responses of firings. They are stored with the firing, so the next holder of the lease continues after a
 * crash; repeating a response has no further effect.
 */
export class RuleResponder {
  readonly #deps: Deps
  readonly #parts: ResponderParts
  readonly #underWay = new Map<string, Promise<void>>()

  constructor(deps: Deps, parts: ResponderParts) {
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
    for (const timed of await readExpired(database.db, clock.now(), runRows)) await this.#end(timed)
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
    const count = (...of: SuspensionOutcome[]) => outcomes.filter((each) => of.includes(each)).length
    const before = count('already_suspended', 'take_over', 'extend')
    const [suspended, refused] = [count('suspend'), count('refused')]
    const detail = `${suspended} suspended, ${before} were already suspended, ${refused} refused by the brake.`
    await this.#settle(response, refused > 0 ? 'refused' : 'done', detail)
  }

  /** Suspends through the queue of automatic suspensions, and thus under their brake. */
  #suspend(
    response: PendingResponse,
    instanceId: string,
    settle: (outcome: SuspensionOutcome) => Statement[],
  ): Promise<SuspensionOutcome> {
    const { rule_id, event_id, duration_ms } = response
    const endsAt = duration_ms === null ? null : this.#deps.clock.now() + duration_ms
    return this.#parts.autoSuspension.answer({
      instanceId,
      keyId: `rule ${rule_id}`,
      eventId: event_id,
      reason: reasonOf(response),
      isRepeat: true,
      rule: { id: rule_id, endsAt, settle },
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

  /** Resumes an instance whose suspension has expired, unless it was resumed, suspended again or extended since. */
  async #end(timed: Expired): Promise<void> {
    const { database, clock } = this.#deps
    const { instanceId } = timed
    const condition = async (version: number) => {
      const held = { ...holdUntil(timed.endsAt), version }
      if (mayResume(held, { timerOf: timed.version, now: clock.now() })) return [holdTimed(database, timed)]
      throw new AppError('conflict', 'The instance was suspended again.')
    }
    const reason = `The suspension by rule ${timed.ruleId} expired`
    try {
      await resumeInstance(this.#deps, this.#parts, { instanceId, reason, actor, condition })
    } catch (fault) {
      if (!(fault instanceof AppError) || fault.code === 'overloaded') throw fault
      // Its timer ends it once the parent is resumed.
      if (fault.code === 'parent_suspended') return
      // A process of an earlier version may have resumed it; its row is corrected within a minute.
      await this.#forget(timed)
    }
  }

  async #forget(timed: Expired): Promise<void> {
    try {
      await this.#deps.database.batch(endStatements(this.#deps.database, timed, null))
    } catch (fault) {
      // It was taken over or extended meanwhile.
      if (!(fault instanceof DatabaseError && fault.stale)) throw fault
    }
  }
}

/** Returns the reason shown to the agent, in the audit log and in alerts: rule, version and event. */
function reasonOf({ title, version, event_id, rule_id }: PendingResponse): string {
  const end = ` (rule ${rule_id}, version ${version}, event ${event_id})`
  return `Rule: ${title}`.slice(0, limits.reason - end.length) + end
}
