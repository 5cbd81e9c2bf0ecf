import type { Denial } from './denied.ts'
import type { GuardedCall, Monitor } from './monitor.ts'

/** One tool call in an adapter. */
interface AdapterCall<Result> extends GuardedCall {
  run(): Result | PromiseLike<Result>
  /** Returns the denial in the form in which the framework shows it to the model. */
  deny(denial: Denial): Result | PromiseLike<Result>
  /** For frameworks in which a result may be a failure, besides an exception. */
  hasFailed?(result: Result): boolean
}

/** Guards a call, runs it and reports it. Rethrows what the tool throws. */
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

/** Starts to measure an allowed call. Returns a function that reports the call. */
export function startCall(monitor: Monitor, { toolName, args, sessionId }: GuardedCall): (ok: boolean) => void {
  const startedAt = performance.now()
  return (ok) => {
    const durationMs = performance.now() - startedAt
    void monitor.reportToolCall({ toolName, durationMs, ok, sessionId, params: args })
  }
}

/** Copies an object with changed properties. Keeps symbols and hidden properties, by which frameworks mark their tools. */
export function copyWith<Original extends object>(original: Original, changes: object): Original {
  const properties = { ...Object.getOwnPropertyDescriptors(original), ...Object.getOwnPropertyDescriptors(changes) }
  return Object.create(Object.getPrototypeOf(original), properties)
}
