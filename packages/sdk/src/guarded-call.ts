import type { Denial } from './denied.ts'
import type { GuardedCall, Monitor } from './monitor.ts'

/** One tool call in an adapter. */
interface AdapterCall<Result> extends GuardedCall {
  run(): Result | PromiseLike<Result>
  /** Returns the denial in the form in which the framework shows it to the model. */
  deny(denial: Denial): Result | PromiseLike<Result>
  /** For frameworks in which a result can be a failure, not only a thrown error. */
  hasFailed?(result: Result): boolean
}

/** Guards a call, runs it and reports it. Errors of the tool are rethrown unchanged. */
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

/** Starts measuring an allowed call. Returns a function that reports the call. */
export function startCall(monitor: Monitor, { toolName, args, sessionId }: GuardedCall): (ok: boolean) => void {
  const startedAt = performance.now()
  return (ok) => {
    const durationMs = performance.now() - startedAt
    void monitor.reportToolCall({ toolName, durationMs, ok, sessionId, params: args })
  }
}

/**
 * Returns a copy with these properties changed. Keeps symbols and hidden properties, by which frameworks mark their
 * tools.
 */
export function copyWith<Original extends object>(original: Original, changes: object): Original {
  const properties = { ...Object.getOwnPropertyDescriptors(original), ...Object.getOwnPropertyDescriptors(changes) }
  return Object.create(Object.getPrototypeOf(original), properties)
}
