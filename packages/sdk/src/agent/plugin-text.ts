// OpenCode and OpenClaw have no hooks that run a command, but load plugins. Ours runs the hook and blocks the call.

interface PluginApi {
  product: string
  /** Its event before a tool call. */
  event: string
  /** What the file exports, with the function `decide` that rejects with the reason. */
  exported: string
}

const apis = {
  opencode: {
    product: 'OpenCode',
    event: 'tool.execute.before',
    exported: `export const Wardline = async ({ directory }) => ({
  'tool.execute.before': ({ tool, sessionID, callID }, { args }) =>
    decide({
      hook_event_name: 'PreToolUse',
      session_id: sessionID,
      tool_use_id: callID,
      cwd: directory,
      tool_name: tool,
      tool_input: args,
    }),
})
`,
  },
  // It blocks by an answer. An error blocks as well, but its text does not reach the model.
  openclaw: {
    product: 'OpenClaw',
    event: 'before_tool_call',
    exported: `export default {
  id: 'wardline',
  name: 'Wardline',
  register(api) {
    api.on('before_tool_call', async ({ toolName, toolKind, toolCallId, params }, { agentId, sessionId, sessionKey }) => {
      try {
        await decide({
          hook_event_name: 'PreToolUse',
          session_id: sessionId ?? sessionKey,
          session_key: sessionKey,
          tool_use_id: toolCallId,
          cwd: api.runtime.agent.resolveAgentWorkspaceDir(api.config, agentId),
          // The tool exec runs JavaScript in code mode, and only its kind says so.
          tool_name: toolKind ?? toolName,
          tool_input: params,
        })
      } catch ({ message }) {
        return { block: true, blockReason: message }
      }
    })
  },
}
`,
  },
} satisfies Record<string, PluginApi>

/** A coding agent that loads a plugin. */
export type PluginTool = keyof typeof apis

export const hasPlugin = (tool: string): tool is PluginTool => Object.hasOwn(apis, tool)

const firstLine = (tool: PluginTool) =>
  `// Wardline's plugin for ${apis[tool].product}. To remove it: wardline-agent uninstall ${tool}`

export const isPlugin = (tool: PluginTool, text: string): boolean => text.startsWith(firstLine(tool))

/**
 * Returns the source of the plugin. It loads nothing but the hook, in a process of the hook's, and blocks the call if the
 * hook cannot start, crashes or hangs, because the fail mode is known only to the hook. `wardline doctor` reads the line
 * with the hooks.
 */
export const pluginText = (tool: PluginTool, command: string): string => `${firstLine(tool)}
import { spawn } from 'node:child_process'

const hooks = ${JSON.stringify({ [apis[tool].event]: [{ command }] })}
// Longer than the hook's own time limit, so a hook that takes longer has failed.
const timeoutMs = 5_000

const decide = (call) =>
  new Promise((allow, deny) => {
    const [{ command }] = hooks['${apis[tool].event}']
    const child = spawn(command, { shell: true, stdio: ['pipe', 'ignore', 'pipe'] })
    let reason = ''
    const end = (code) => {
      clearTimeout(timer)
      if (code === 0) allow()
      else deny(new Error((code === 2 && reason.trim()) || 'The Wardline hook failed, so this call is blocked.'))
    }
    const timer = setTimeout(() => {
      child.kill('SIGKILL')
      end()
    }, timeoutMs)
    child.on('error', () => end()).on('close', end)
    child.stderr.setEncoding('utf8').on('data', (text) => {
      if (reason.length < 10_000) reason += text
    })
    child.stdin.on('error', () => {}).end(JSON.stringify(call))
  })

${apis[tool].exported}`
