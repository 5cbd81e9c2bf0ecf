import type { Readable } from 'node:stream'
import type { CodingTool } from './agent-settings.ts'

/** A file that is written comes whole; what is larger cannot be compared with decoys, and is denied in every fail mode. */
const maxBytes = 8 * 1024 * 1024

/** A call that a coding agent asks about, by the names of Claude Code. */
export interface HookCall {
  tool: CodingTool
  /** Its name for what happens, such as preToolUse. */
  event: string
  /** A call about to be made, or another event, of which the hook says nothing. */
  isBefore: boolean
  toolName: string
  args: unknown
  cwd: string | undefined
  sessionId: string | undefined
  callId: string | undefined
}

/** What cannot be understood, in one sentence that quotes nothing of it. */
export interface InvalidInput {
  fault: string
  /** Chosen by the writer of the arguments, so that the fail mode has no say. */
  isTooLarge?: true
}

/** Reads to the end, whatever comes: a coding agent that cannot write it all takes the hook for broken, and goes on. */
export function readInput(stream: Readable, withinMs: number): Promise<string | InvalidInput> {
  return new Promise((done) => {
    const parts: Buffer[] = []
    let bytes = 0
    const late = { fault: `Standard input did not end within ${withinMs} ms.` }
    const timer = setTimeout(() => done(late), withinMs)
    const tooLarge = { fault: `The call is larger than ${maxBytes} bytes.`, isTooLarge: true } as const
    const finish = (input: string | InvalidInput) => {
      clearTimeout(timer)
      done(input)
    }
    stream.on('data', (part: Buffer) => {
      bytes += part.length
      if (bytes <= maxBytes) parts.push(part)
    })
    stream.on('error', () => finish({ fault: 'Standard input cannot be read.' }))
    stream.on('end', () => finish(bytes <= maxBytes ? Buffer.concat(parts).toString() : tooLarge))
  })
}

type Fields = Record<string, unknown>

const text = (value: unknown): string | undefined => (typeof value === 'string' && value !== '' ? value : undefined)
const fieldsOf = (value: unknown): Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {}

/** The events in which a call can still be stopped. */
const before = ['PreToolUse', 'preToolUse', 'beforeShellExecution', 'beforeMCPExecution', 'beforeReadFile']
/** Names that Cursor has for tools of others. */
const cursorNames: Record<string, string> = { Shell: 'Bash' }

/** `given`: the coding agent that the hook was installed for; by default the call itself says it. */
export function parseCall(input: string, given: CodingTool | undefined): HookCall | InvalidInput {
  let content: unknown
  try {
    // Cursor begins with a byte order mark.
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
  }
  if (!before.includes(event)) return { ...known, isBefore: false, toolName: '', args: undefined, cwd: undefined }
  const call = callOf(event, fields)
  if ('fault' in call) return call
  return { ...known, isBefore: true, ...call, cwd: folderOf(call.args, fields) }
}

function toolOf({ cursor_version, turn_id }: Fields): CodingTool {
  if (text(cursor_version)) return 'cursor'
  return text(turn_id) ? 'codex' : 'claude-code'
}

function callOf(event: string, fields: Fields): Pick<HookCall, 'toolName' | 'args'> | InvalidInput {
  if (event === 'beforeShellExecution') return required(fields, 'command', 'Bash')
  // The content of the file is not what the agent asks for, but what it is about to learn.
  if (event === 'beforeReadFile') return required(fields, 'file_path', 'Read')
  const toolName = text(fields.tool_name)
  if (toolName === undefined) return { fault: 'The call has no tool_name.' }
  // Without it nothing would be compared with the decoys, for every call from then on.
  if (fields.tool_input === undefined) return { fault: 'The call has no tool_input.' }
  return { toolName: cursorNames[toolName] ?? toolName, args: parsed(fields.tool_input) }
}

function required(fields: Fields, name: string, toolName: string): Pick<HookCall, 'toolName' | 'args'> | InvalidInput {
  const value = text(fields[name])
  return value === undefined ? { fault: `The call has no ${name}.` } : { toolName, args: { [name]: value } }
}

/** Cursor sends the arguments of MCP tools as JSON in a text. */
function parsed(args: unknown): unknown {
  if (typeof args !== 'string') return args
  try {
    return JSON.parse(args)
  } catch {
    return args
  }
}

/** The folder that the tool will work in. */
function folderOf(args: unknown, fields: Fields): string | undefined {
  const { working_directory, workdir } = fieldsOf(args)
  const [root] = Array.isArray(fields.workspace_roots) ? fields.workspace_roots : []
  return text(working_directory) ?? text(workdir) ?? text(fields.cwd) ?? text(root)
}
