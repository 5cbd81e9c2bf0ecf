import { existsSync } from 'node:fs'
import { droppedEvent, eventOf, type NewEvent, toolCallEvent } from '../events.ts'
import { redacted } from '../redact.ts'
import { isSuccess, type Service } from '../service.ts'
import { errorsOf } from '../wire.ts'
import type { AgentMemory } from './agent-memory.ts'
import type { HookCall } from './hook-input.ts'
import type { PolicyVerdict } from './hook-policy.ts'

export const reportMs = 500
/** Two ids and a name. */
const subagentBytes = 1024

/** Reports calls before they run. What a service that is away does not get is counted, and decisions are kept for it. */
export class HookReports {
  readonly #service: Service
  readonly #memory: AgentMemory
  readonly #instanceId: string

  constructor(service: Service, memory: AgentMemory, instanceId: string) {
    this.#service = service
    this.#memory = memory
    this.#instanceId = instanceId
  }

  /**
   * Reports a call before the tool runs, so that it is recorded even if no event follows, and what policies decided. Returns
   * a sentence if that failed.
   */
  async report(
    call: HookCall,
    isServiceThere: boolean,
    passes: boolean,
    policy: PolicyVerdict | undefined,
  ): Promise<string | undefined> {
    const memory = this.#memory
    const decided = (policy?.events ?? []).flatMap((report) => this.#textOf(eventOf(report, this.#instanceId)))
    const kept = isServiceThere && existsSync(memory.eventsFile) ? memory.takeEvents() : []
    if (!passes && decided.length + kept.length === 0) return undefined
    const lost = isServiceThere && passes ? memory.takeLost() : 0
    const own = passes ? this.#textOf(callEvent(call, this.#instanceId, policy?.flow)) : []
    const dropped = lost > 0 ? this.#textOf(droppedEvent(lost, this.#instanceId)) : []
    const sent = isServiceThere ? await this.#send(call, [...own, ...decided, ...dropped, ...kept]) : undefined
    if (sent && sent.fault === undefined) return undefined
    if (passes) memory.addLost(lost + 1)
    // They say what happened while nobody could see it. Those that the service refused are refused again.
    if (!sent?.isTaken) memory.addEvents([...decided, ...kept])
    return sent ? `The call was not reported. ${sent.fault}` : undefined
  }

  #textOf(event: NewEvent | string): string[] {
    return typeof event === 'string' ? [] : [JSON.stringify(event)]
  }

  async #send({ sessionId, callId }: HookCall, events: readonly string[]) {
    const answer = await this.#service.call('events/batch', {
      body: `[${events.join(',')}]`,
      // A call handled by two hooks, of the user and of the folder, is stored once.
      headers: { 'idempotency-key': idempotencyKey(sessionId, callId) },
      timeoutMs: reportMs,
    })
    const [error] = errorsOf(answer.body, events.length)
    if (isSuccess(answer) && !error) return { isTaken: true, fault: undefined }
    const { message } = this.#service.explain(error ? { status: 400, body: { error: error.error } } : answer)
    return { isTaken: isSuccess(answer), fault: message }
  }
}

/** Returns the event of a call that has not run yet, so without an outcome. */
function callEvent(
  { toolName, sessionId, callId, args, subagent }: HookCall,
  instanceId: string,
  flow: object | undefined,
): NewEvent {
  const event = toolCallEvent({ toolName, sessionId, callId, params: args }, instanceId, undefined, flow)
  if (typeof event === 'string') throw new Error(event)
  const { ok: _, ...metadata } = event.metadata ?? {}
  return {
    ...event,
    metadata: {
      ...metadata,
      ...(subagent && { subagent: redacted(subagent, subagentBytes) }),
    },
  }
}

export function idempotencyKey(sessionId: string | undefined, callId: string | undefined): string {
  const key = `hook ${sessionId} ${callId}`
  return sessionId && callId && /^[\x20-\x7e]{1,200}$/.test(key) ? key : crypto.randomUUID()
}
