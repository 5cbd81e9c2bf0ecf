// OpenCode has no hooks that run a command, but loads every file in its folder of plugins. Ours runs the hook there, and
// blocks the call by throwing.

const firstLine = "// Wardline's plugin for OpenCode. To remove it: wardline-agent uninstall opencode"

export const isPlugin = (text: string): boolean => text.startsWith(firstLine)

/**
 * Returns the source of the plugin. It loads nothing but the hook, in a process of the hook's, and blocks the call if the
 * hook cannot start, crashes or hangs, because the fail mode is known only to the hook. `wardline doctor` reads the line
 * with the hooks.
 */
export const pluginText = (command: string): string => `${firstLine}
import { spawn } from 'node:child_process'

const hooks = ${JSON.stringify({ 'tool.execute.before': [{ command }] })}
// Longer than the hook's own time limit, so a hook that takes longer has failed.
const timeoutMs = 5_000

const decide = (call) =>
  new Promise((allow, deny) => {
    const [{ command }] = hooks['tool.execute.before']
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

export const Wardline = async ({ directory }) => ({
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
`
