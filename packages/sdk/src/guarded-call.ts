import type { Denial } from './denied.ts'
import type { GuardedCall, Monitor } from './monitor.ts'

/** One call of a tool, as an adapter sees it. */
interface AdapterCall<Result> extends GuardedCall {
  run(): Result | PromiseLike<Result>
  /** The denial in the form in which the framework shows it to the model. */
  deny(denial: Denial): Result | PromiseLike<Result>
  /** For frameworks in which a result, and not only a throw, may be a failure. */
  hasFailed?(result: Result): boolean
}

/** Guards a call, runs it and reports it. What the tool throws goes on as it is. */
export async function guardedCall<Result>(monitor: Monitor, call: AdapterCall<Result>): Promise<Result> {
  const denial = await monitor.guard(call)
  if (denial) return call.deny(denial)
  const report = startCall(monitor, call)
  let ok = false
  try {
    const result = await call.run()
    ok = call.hasFailed?.(result) !== true
    return result
  } finally {
    report(ok)
  }
}

/** Starts the clock of a call that is allowed. What it returns reports the call. */
export function startCall(monitor: Monitor, { toolName, args, sessionId }: GuardedCall): (ok: boolean) => void {
  const startedAt = performance.now()
  return (ok) => {
    const durationMs = performance.now() - startedAt
    void monitor.reportToolCall({ toolName, durationMs, ok, sessionId, params: args })
  }
}

/** A copy that differs in these properties. Frameworks also mark their tools by symbols and hidden properties: all stay. */
export function copyWith<Original extends object>(original: Original, changes: object): Original {
  const properties = { ...Object.getOwnPropertyDescriptors(original), ...Object.getOwnPropertyDescriptors(changes) }
  return Object.create(Object.getPrototypeOf(original), properties)
}
