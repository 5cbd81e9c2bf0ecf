import { resolve } from 'node:path'
import type { Readable } from 'node:stream'
import type { Scope } from '@wardline/policy'
import { turningTimeout } from '../service.ts'
import type { CodingTool } from './agent-settings.ts'
import { hasDoubledMember } from './mcp-messages.ts'

/** Maximum input in bytes. Before a file is read, Cursor sends all of its content. */
const maxBytes = 8 * 1024 * 1024
/**
 * Maximum characters of a call with arguments. A model writes at most 128,000 tokens at a time, about half of this.
 * Splitting more into texts could take longer than a coding agent waits: several calls at once share the processor.
 */
const maxCallLength = 1024 * 1024
/**
 * From this many characters on, the author of the arguments may be the cause of a failure, which then denies the call.
 * Honest calls are mostly shorter, and the hook handles one of this length within milliseconds.
 */
const maxSafeLength = 64 * 1024

/** A tool call of a coding agent, with Claude Code's names of tools. */
export interface HookCall {
  tool: CodingTool
  /** The coding agent's name of the event, such as preToolUse. */
  event: string
  /** True for a call that has not run yet. */
  isBefore: boolean
  /** How a call went that has run. The hook ignores events that are neither call nor answer. */
  outcome?: { ok: boolean; result: unknown }
  /** What the model answered. */
  answer?: string | undefined
  /** What a person wrote. */
  prompt?: string | undefined
  /** How Claude Code treats calls that need a permission. */
  permissionMode?: string | undefined
  toolName: string
  args: unknown
  /** Which part of the session makes the call; undefined if the coding agent does not say it. */
  scope?: Scope | undefined
  /** The subagent that makes the call, as the coding agent names it. */
  subagent?: Subagent | undefined
  /** The arguments cannot be read, or the tool may read others: a policy can say nothing about them. */
  isUnreadable?: boolean
  /** What is compared with decoys: the arguments in each form in which the tool may read them. */
  readings: unknown[]
  cwd: string | undefined
  sessionId: string | undefined
  callId: string | undefined
}

interface Subagent {
  id: string
  type?: string
  /** The agent that started it; absent if the coding agent does not say it. */
  parent?: string
}

/** Input that cannot be parsed. `fault` is one sentence that quotes nothing from it. */
export interface InvalidInput {
  fault: string
  /** The call is denied in every fail mode, because the writer of the arguments controls their size. */
  isTooLarge?: boolean
  /** The input as far as it may be a call. */
  text?: string
}

/** Returns a call of an unknown tool with that input. */
export const unreadableCall = (tool: CodingTool | undefined, { text }: InvalidInput): HookCall => ({
  tool: tool ?? 'claude-code',
  event: 'PreToolUse',
  isBefore: true,
  toolName: 'unknown',
  args: text,
  isUnreadable: true,
  readings: [],
  cwd: undefined,
  sessionId: undefined,
  callId: undefined,
})

/** Whether the author of the arguments may have caused a failure to handle them. */
export const isLarge = (length: number): boolean => length > maxSafeLength

const tooLarge = (limit: string): InvalidInput => ({ fault: `The call is larger than ${limit}.`, isTooLarge: true })

/**
 * Reads the stream to its end, even if the input is invalid: a coding agent that cannot write all of it treats the hook
 * as broken and runs the call.
 */
export function readInput(stream: Readable, withinMs: number): Promise<string | InvalidInput> {
  return new Promise((done) => {
    const parts: Buffer[] = []
    let bytes = 0
    const finish = (input: string | InvalidInput) => {
      stopWaiting()
      done(input)
    }
    const stopWaiting = turningTimeout(withinMs, () =>
      done({ fault: `Standard input did not end within ${withinMs} ms.`, isTooLarge: isLarge(bytes) }),
    )
    stream.on('data', (part: Buffer) => {
      bytes += part.length
      if (bytes <= maxBytes) parts.push(part)
    })
    stream.on('error', () => finish({ fault: 'Standard input cannot be read.', isTooLarge: isLarge(bytes) }))
    stream.on('end', () => finish(bytes <= maxBytes ? Buffer.concat(parts).toString() : tooLarge(`${maxBytes} bytes`)))
  })
}

type Fields = Record<string, unknown>

const text = (value: unknown): string | undefined => (typeof value === 'string' && value !== '' ? value : undefined)
const fieldsOf = (value: unknown): Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {}

/** Events in which a call can still be stopped. */
const before = [
  'PreToolUse',
  'preToolUse',
  'beforeShellExecution',
  'beforeMCPExecution',
  'beforeReadFile',
  'BeforeTool',
]
/** Events after a call, and whether it succeeded. */
const after: Readonly<Record<string, boolean>> = {
  PostToolUse: true,
  PostToolUseFailure: false,
  postToolUse: true,
  postToolUseFailure: false,
  AfterTool: true,
}
/** Events after an answer, of the agent and of its subagents, and the field with its text. */
const answers: Readonly<Record<string, string>> = {
  Stop: 'last_assistant_message',
  SubagentStop: 'last_assistant_message',
  afterAgentResponse: 'text',
  AfterAgent: 'prompt_response',
}
/** Events of a prompt. */
const prompts = ['UserPromptSubmit', 'beforeSubmitPrompt', 'BeforeAgent']
/**
 * Authors of prompts that are people: others are tasks that a model has scheduled, or messages of other agents. Claude Code
 * names them since 2.1.300; prompts within a subagent are the model's.
 */
const isPersonal = ({ source, agent_id }: Fields): boolean =>
  agent_id === undefined && (source === undefined || source === 'user' || source === 'sdk')

/** Names of tools of Gemini CLI 0.61 and OpenClaw 2026.9.6, mapped to Claude Code's. */
const claudeNames: Partial<Record<CodingTool, Readonly<Record<string, string>>>> = {
  'gemini-cli': {
    run_shell_command: 'Bash',
    read_file: 'Read',
    write_file: 'Write',
    replace: 'Edit',
    glob: 'Glob',
    grep_search: 'Grep',
    search_file_content: 'Grep',
    list_directory: 'LS',
    web_fetch: 'WebFetch',
    google_web_search: 'WebSearch',
  },
  openclaw: {
    exec: 'Bash',
    read: 'Read',
    write: 'Write',
    edit: 'Edit',
    ls: 'LS',
    web_fetch: 'WebFetch',
    web_search: 'WebSearch',
  },
}

/** Returns Claude Code's name of the tool; undefined without one. Gemini CLI names tool server and tool apart, too. */
function toolNameOf(tool: CodingTool, fields: Fields): string | undefined {
  const name = text(fields.tool_name)
  if (tool === 'cursor') return name === 'Shell' ? 'Bash' : name
  const names = claudeNames[tool]
  if (names === undefined || name === undefined) return name
  const { server_name, tool_name } = fieldsOf(fields.mcp_context)
  if (text(server_name) && text(tool_name)) return `mcp__${server_name}__${tool_name}`
  return Object.hasOwn(names, name) ? names[name] : name
}

/**
 * Parses a call. `given` is the coding agent that the hook was installed for; by default it is detected from the call.
 */
export function parseCall(input: string, given: CodingTool | undefined): HookCall | InvalidInput {
  const call = callIn(input, given)
  // A coding agent may cut long input, or write what is not JSON, such as NaN.
  return 'fault' in call ? { isTooLarge: isLarge(input.length), text: input, ...call } : call
}

function callIn(input: string, given: CodingTool | undefined): HookCall | InvalidInput {
  let content: unknown
  try {
    // Cursor's input starts with a byte order mark.
    content = JSON.parse(input.replace(/^\ufeff/, ''))
  } catch {
    return { fault: 'Standard input is not JSON.' }
  }
  const fields = fieldsOf(content)
  const event = text(fields.hook_event_name)
  if (event === undefined) return { fault: 'The call has no hook_event_name.' }
  const known = {
    tool: given ?? toolOf(fields),
    event,
    sessionId: text(fields.session_id) ?? text(fields.conversation_id),
    callId: text(fields.tool_use_id),
    permissionMode: text(fields.permission_mode),
    subagent: subagentOf(fields),
  }
  const ok = Object.hasOwn(after, event) ? after[event] : undefined
  if (ok !== undefined) {
    const { result_type, text_result_for_llm } = fieldsOf(fields.tool_result)
    const result = parsed(fields.tool_response ?? fields.tool_output ?? text_result_for_llm ?? fields.error)
    const hasFailed = event === 'AfterTool' ? fieldsOf(result).error : text(result_type) && result_type !== 'success'
    const isOk = ok && !hasFailed
    return {
      ...known,
      isBefore: false,
      ...noCall,
      toolName: toolNameOf(known.tool, fields) ?? 'unknown',
      args: parsed(fields.tool_input),
      outcome: { ok: isOk, result },
    }
  }
  if (prompts.includes(event)) {
    return { ...known, isBefore: false, ...noCall, prompt: isPersonal(fields) ? text(fields.prompt) : undefined }
  }
  const answerField = Object.hasOwn(answers, event) ? answers[event]! : ''
  if (!before.includes(event)) return { ...known, isBefore: false, ...noCall, answer: text(fields[answerField]) }
  // Of this event only the path is an argument.
  if (event !== 'beforeReadFile' && input.length > maxCallLength) return tooLarge(`${maxCallLength} characters`)
  const call = callOf(event, fields, known.tool)
  if ('fault' in call) return call
  return { ...known, isBefore: true, ...call, scope: scopeOf(known.tool, fields), cwd: folderOf(call.args, fields) }
}

/** Claude Code and Copilot CLI name it, and Copilot CLI its parent. */
function subagentOf({ agent_id, agent_type, parent_agent_id }: Fields): Subagent | undefined {
  const [id, type, parent] = [agent_id, agent_type, parent_agent_id].map(text)
  if (id === undefined) return undefined
  return { id, ...(type === undefined ? {} : { type }), ...(parent === undefined ? {} : { parent }) }
}

const noCall = { toolName: '', args: undefined, readings: [], cwd: undefined }

function toolOf({ cursor_version, turn_id, hook_event_name, timestamp, session_key }: Fields): CodingTool {
  if (text(cursor_version)) return 'cursor'
  if (/^(?:Before|After)(?:Tool|Agent)$/.test(String(hook_event_name))) return 'gemini-cli'
  if (text(turn_id)) return 'codex'
  if (text(session_key)) return 'openclaw'
  return text(timestamp) ? 'copilot-cli' : 'claude-code'
}

/**
 * Claude Code and Copilot CLI name the subagent that makes a call, and nobody otherwise. OpenClaw names the session, whose
 * key says whether it is a subagent's. The others say nothing about it.
 */
const scopeOf = (tool: CodingTool, { agent_id, session_key }: Fields): Scope | undefined => {
  if (tool === 'openclaw' && text(session_key)) return /:subagent:/.test(String(session_key)) ? 'subagent' : 'main'
  if (tool !== 'claude-code' && tool !== 'copilot-cli') return undefined
  return agent_id === undefined ? 'main' : 'subagent'
}

type Arguments = Pick<HookCall, 'toolName' | 'args' | 'readings' | 'isUnreadable'>

function callOf(event: string, fields: Fields, tool: CodingTool): Arguments | InvalidInput {
  if (event === 'beforeShellExecution') return required(fields, 'command', 'Bash')
  // Check only the path: the content is what the agent is about to read.
  if (event === 'beforeReadFile') return required(fields, 'file_path', 'Read')
  const toolName = toolNameOf(tool, fields)
  if (toolName === undefined) return { fault: 'The call has no tool_name.' }
  // If a coding agent renamed this field, no call would be compared with the decoys any more.
  if (fields.tool_input === undefined) return { fault: 'The call has no tool_input.' }
  const args = parsed(fields.tool_input)
  // Of two members with the same name, the server of the tool may take the one that this parser drops.
  const readings = args === fields.tool_input ? [args] : [args, fields.tool_input]
  const isUnreadable =
    typeof fields.tool_input === 'string' &&
    typeof args === 'object' &&
    args !== null &&
    hasDoubledMember(fields.tool_input, args)
  return { toolName, args, readings, ...(isUnreadable ? { isUnreadable } : {}) }
}

function required(fields: Fields, name: string, toolName: string): Arguments | InvalidInput {
  const value = text(fields[name])
  if (value === undefined) return { fault: `The call has no ${name}.` }
  const args = { [name]: value }
  return { toolName, args, readings: [args] }
}

/** Parses the arguments of MCP tools and the results, which Cursor sends as JSON in a string. */
function parsed(args: unknown): unknown {
  if (typeof args !== 'string') return args
  try {
    return JSON.parse(args)
  } catch {
    return args
  }
}

/** Returns the tool's working directory. */
function folderOf(args: unknown, fields: Fields): string | undefined {
  const { working_directory, workdir, dir_path } = fieldsOf(args)
  const [root] = Array.isArray(fields.workspace_roots) ? fields.workspace_roots : []
  const cwd = text(fields.cwd) ?? text(root)
  // Of the shell of Gemini CLI, relative to its own folder.
  if (fields.hook_event_name === 'BeforeTool' && text(dir_path) && cwd) return resolve(cwd, text(dir_path)!)
  return text(working_directory) ?? text(workdir) ?? cwd
}
