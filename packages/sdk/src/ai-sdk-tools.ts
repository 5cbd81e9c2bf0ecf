import type { Denial } from './denied.ts'
import { copyWith, guardedCall, learnPrompts, signalOf, startCall, textsOf, withinCall } from './guarded-call.ts'
import type { GuardedCall, Monitor } from './monitor.ts'

// Versions 6 and 7 of the AI SDK share this shape of tools.

/** Tools by name, as `generateText`, `streamText` and `ToolLoopAgent` accept them. */
export type AiTools = Record<string, AiTool>
export interface AiTool {
  type?: unknown
  inputSchema?: unknown
  execute?: unknown
  needsApproval?: unknown
  toModelOutput?: unknown
}

export interface AiSdkOptions {
  sessionId?: string
}

type Method = (...args: unknown[]) => unknown

const guarded = new WeakSet<object>()

/** Whether guardExecute() has wrapped the tool. */
export const isGuarded = (tool: AiTool | undefined): boolean =>
  typeof tool?.execute === 'function' && guarded.has(tool.execute)

/** Wraps a tool with a guard before each call and a report after it. Its output for a denied call is the denial. */
export function guardExecute<Tool extends AiTool>(
  monitor: Monitor,
  toolName: string,
  tool: Tool,
  { sessionId }: AiSdkOptions,
): Tool {
  const { toModelOutput } = tool
  const body = tool.execute as Method
  const callOf = (args: unknown, options: unknown): GuardedCall => {
    const { abortSignal, toolCallId: callId } = Object(options) as { abortSignal?: unknown; toolCallId?: string }
    return { toolName, args, sessionId, callId, signal: signalOf(abortSignal) }
  }
  const execute = isGenerator(body)
    ? (input: unknown, options: unknown) => {
        learnMessages(monitor, options, sessionId)
        return stream(monitor, callOf(input, options), () => body.call(tool, input, options))
      }
    : (input: unknown, options: unknown) => {
        learnMessages(monitor, options, sessionId)
        return guardedCall<unknown>(monitor, {
          ...callOf(input, options),
          run: () => lastOf(body.call(tool, input, options)),
          deny: (denial) => denial,
        })
      }
  guarded.add(execute)
  if (typeof toModelOutput !== 'function') return copyWith(tool, { execute })
  // toModelOutput expects an output of the tool, not a denial.
  const readOutput = (result: { output: unknown }) =>
    isDenial(result.output) ? { type: 'json', value: result.output } : toModelOutput.call(tool, result)
  return copyWith(tool, { execute, toModelOutput: readOutput })
}

/** Remembers the messages of the user among those that were sent to the model before it made the call. */
export function learnMessages(monitor: Monitor, options: unknown, sessionId: string | undefined): void {
  const messages = () => {
    const { messages = [] } = Object(options) as { messages?: { role?: unknown; content?: unknown }[] }
    return messages.filter(({ role }) => role === 'user').flatMap(({ content }) => textsOf(content))
  }
  learnPrompts(monitor, messages, sessionId)
}

const isGenerator = (body: Method): boolean =>
  Object.prototype.toString.call(body) === '[object AsyncGeneratorFunction]'

async function* stream(monitor: Monitor, call: GuardedCall, run: () => unknown): AsyncGenerator<unknown, void> {
  const denial = await monitor.guard(call)
  if (denial) return yield denial
  const report = startCall(monitor, call)
  let ok = false
  let last: unknown
  try {
    const parts = withinCall(() => (run() as AsyncIterable<unknown>)[Symbol.asyncIterator]())
    const next = () => withinCall(() => parts.next())
    try {
      for (let part = await next(); !part.done; part = await next()) {
        last = part.value
        yield part.value
      }
      ok = true
    } finally {
      if (!ok) await parts.return?.()
    }
  } finally {
    report(ok, last)
  }
}

/**
 * Returns the last of streamed results as the output. An ordinary function that returns an async iterable shows it only
 * when called, after the guard, too late to pass on the results before the last.
 */
async function lastOf(result: unknown): Promise<unknown> {
  if (typeof (result as AsyncIterable<unknown> | null | undefined)?.[Symbol.asyncIterator] !== 'function') return result
  let last: unknown
  for await (const part of result as AsyncIterable<unknown>) last = part
  return last
}

/**
 * Returns a callback for `onFinish` (in version 7 also called `onEnd`) of `generateText`, `streamText` and
 * `ToolLoopAgent`, which reports the answer.
 */
export const answerReporter =
  (monitor: Monitor, { sessionId }: AiSdkOptions = {}) =>
  ({ text }: { text: string }): void => {
    void monitor.reportAnswer({ answer: text, sessionId })
  }

/** Checks the shape, not the identity: the denial may have been stored with the conversation and reloaded. */
function isDenial(output: unknown): output is Denial {
  const { denied, reason, retryable } = Object(output) as Partial<Denial>
  return denied === true && typeof retryable === 'boolean' && typeof reason === 'string'
}
