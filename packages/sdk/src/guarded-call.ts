import { AsyncLocalStorage } from 'node:async_hooks'
import type { Denial } from './denied.ts'
import type { GuardedCall, Monitor } from './monitor.ts'

/** One tool call in an adapter. */
interface AdapterCall<Result> extends GuardedCall {
  run(): Result | PromiseLike<Result>
  /** Returns the denial in the form in which the framework shows it to the model. */
  deny(denial: Denial): Result | PromiseLike<Result>
  /** For frameworks in which a result can be a failure, not only a thrown error. */
  hasFailed?(result: Result): boolean
  /** What the model reads of a result that is more than that. */
  contentOf?(result: Result): unknown
}

/** Guards a call, runs it and reports it. Errors of the tool are rethrown unchanged. */
export async function guardedCall<Result>(monitor: Monitor, call: AdapterCall<Result>): Promise<Result> {
  const denial = await monitor.guard(call)
  if (denial) return call.deny(denial)
  const report = startCall(monitor, call)
  let ok = false
  let result: Result | undefined
  try {
    result = await withinCall(() => call.run())
    ok = call.hasFailed?.(result) !== true
    return result
  } finally {
    report(ok, result === undefined ? undefined : (call.contentOf?.(result) ?? result))
  }
}

const calls = new AsyncLocalStorage<true>()

/** Runs a tool. What an agent within it is asked comes from a model, so no prompt is learnt there. */
export const withinCall = <Result>(run: () => Result): Result => calls.run(true, run)

/** Remembers texts that a framework says its user wrote. `texts` is read only where they can be the user's. */
export function learnPrompts(monitor: Monitor, texts: () => readonly unknown[], sessionId: string | undefined): void {
  if (calls.getStore()) return
  try {
    for (const text of texts()) if (typeof text === 'string') monitor.prompt(text, { sessionId })
  } catch {
    // Messages that cannot be read name no destination: more is asked.
  }
}

/**
 * The signal that a framework passes to a call: once its run is aborted, nothing may run after a late approval. Undefined for
 * anything else.
 */
export function signalOf(value: unknown): AbortSignal | undefined {
  const { aborted, addEventListener } = Object(value) as Partial<AbortSignal>
  return typeof aborted === 'boolean' && typeof addEventListener === 'function' ? (value as AbortSignal) : undefined
}

/** The texts of a message: its content, or those of its parts. */
export function textsOf(content: unknown): unknown[] {
  if (!Array.isArray(content)) return [content]
  return content.map((part) => (Object(part) as { text?: unknown }).text)
}

type ReportCall = (ok: boolean, result: unknown) => void

/** Starts measuring an allowed call. Returns a function that reports the call. */
export function startCall(monitor: Monitor, { toolName, args, sessionId, callId }: GuardedCall): ReportCall {
  const startedAt = performance.now()
  return (ok, result) => {
    const durationMs = performance.now() - startedAt
    void monitor.reportToolCall({ toolName, durationMs, ok, sessionId, callId, params: args, result })
  }
}

/** What the model reads of a message with a result, of MCP or LangChain: without its id, kinds and annotations. */
export function contentOf(message: unknown): unknown {
  const { content, structuredContent } = Object(message) as { content?: unknown; structuredContent?: unknown }
  if (!Array.isArray(content)) return content ?? structuredContent
  const parts = content.map((part) => (Object(part) as { text?: unknown }).text ?? part)
  return parts.length > 0 ? parts : structuredContent
}

/**
 * Returns a copy with these properties changed. Keeps symbols and hidden properties, by which frameworks mark their
 * tools.
 */
export function copyWith<Original extends object>(original: Original, changes: object): Original {
  const properties = { ...Object.getOwnPropertyDescriptors(original), ...Object.getOwnPropertyDescriptors(changes) }
  return Object.create(Object.getPrototypeOf(original), properties)
}
