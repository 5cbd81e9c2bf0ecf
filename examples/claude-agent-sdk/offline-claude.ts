// Stands in for Claude Code, so that the example runs offline: it speaks its protocol with the Agent SDK, but no model
// decides. Parses the prompt as a list of calls, runs the hooks for each, and reads the allowed files.

import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'

interface Call {
  tool: string
  input: { path?: string; file_path?: string }
}
interface HookAnswer {
  continue?: boolean
  stopReason?: string
  hookSpecificOutput?: { permissionDecision?: string; permissionDecisionReason?: string }
}

const session = { session_id: randomUUID(), cwd: process.cwd() }
const asked = new Map<string, (answer: HookAnswer) => void>()
const read: string[] = []
let hooks: Record<string, { hookCallbackIds: string[] }[]> = {}

const send = (message: object) => process.stdout.write(`${JSON.stringify(message)}\n`)
const emit = (message: object) =>
  send({ ...message, session_id: session.session_id, uuid: randomUUID(), parent_tool_use_id: null })

/** Runs all hooks of an event. Returns the first answer that is not empty. */
async function ask(event: string, more: object): Promise<HookAnswer> {
  const ids = (hooks[event] ?? []).flatMap(({ hookCallbackIds }) => hookCallbackIds)
  const input = { ...session, hook_event_name: event, ...more }
  const answers = ids.map((callback_id) => {
    const request_id = randomUUID()
    send({ type: 'control_request', request_id, request: { subtype: 'hook_callback', callback_id, input } })
    return new Promise<HookAnswer>((resolve) => asked.set(request_id, resolve))
  })
  return (await Promise.all(answers)).find((answer) => Object.keys(answer).length > 0) ?? {}
}

/** Makes a call. Returns what the model would read, and whether the agent must stop. */
async function make(call: Call): Promise<{ content: string; is_error: boolean; isStopped?: boolean }> {
  const use = { tool_name: call.tool, tool_input: call.input, tool_use_id: randomUUID() }
  const answer = await ask('PreToolUse', use)
  if (answer.hookSpecificOutput?.permissionDecision === 'deny') {
    const content = answer.hookSpecificOutput.permissionDecisionReason ?? 'denied'
    return { content, is_error: true, isStopped: answer.continue === false }
  }
  const path = call.input.file_path ?? call.input.path ?? ''
  read.push(path)
  try {
    const content = readFileSync(path, 'utf8')
    await ask('PostToolUse', { ...use, tool_response: content, duration_ms: 1 })
    return { content, is_error: false }
  } catch (fault) {
    const error = (fault as Error).message
    await ask('PostToolUseFailure', { ...use, error, duration_ms: 1 })
    return { content: error, is_error: true }
  }
}

async function work(calls: Call[]): Promise<void> {
  emit({ type: 'system', subtype: 'init', cwd: session.cwd, tools: ['Read'], mcp_servers: [], model: 'none' })
  for (const call of calls) {
    const id = randomUUID()
    const use = { type: 'tool_use', id, name: call.tool, input: call.input }
    emit({ type: 'assistant', message: { role: 'assistant', content: [use] } })
    const { isStopped, ...result } = await make(call)
    emit({ type: 'user', message: { role: 'user', content: [{ type: 'tool_result', tool_use_id: id, ...result }] } })
    if (isStopped) break
  }
  const result = JSON.stringify(read)
  await ask('Stop', { stop_hook_active: false, last_assistant_message: result })
  emit({ type: 'result', subtype: 'success', is_error: false, num_turns: 1, result })
}

createInterface({ input: process.stdin }).on('line', (line) => {
  const message = JSON.parse(line)
  if (message.type === 'control_request') {
    if (message.request.subtype === 'initialize') hooks = message.request.hooks ?? {}
    const response = { commands: [], models: [], account: {}, hook_on_failure_supported: true }
    send({
      type: 'control_response',
      response: { subtype: 'success', request_id: message.request_id, response },
    })
  } else if (message.type === 'control_response') {
    asked.get(message.response.request_id)?.(message.response.response ?? {})
  } else if (message.type === 'user') {
    const { content } = message.message
    const prompt = typeof content === 'string' ? content : content[0].text
    void ask('UserPromptSubmit', { prompt, source: 'sdk' }).then(() => work(JSON.parse(prompt)))
  }
})
