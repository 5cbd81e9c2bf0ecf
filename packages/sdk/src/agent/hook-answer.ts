import { plainLine } from '../plain-line.ts'
import type { CodingTool } from './agent-settings.ts'

export interface HookAnswer {
  exitCode: number
  stdout: string
  stderr: string
}

/**
 * What Cursor is answered so that its own approvals still decide. Before a tool, "allow" leaves them as they are, "ask"
 * is not enforced, and no permission counts as a failed hook (https://cursor.com/docs/hooks, October 2026;
 * https://github.com/ldayton/Dippy/issues/129). For a shell command or an MCP tool, and for a call that could not be
 * read, only "ask" can never stand for the approval of the user: Cursor lists it as a bug that "allow" does not
 * (https://forum.cursor.com/t/144244, https://forum.cursor.com/t/155434).
 */
const cursorPermission = (event: string | undefined): 'allow' | 'ask' =>
  event === undefined || /^before(Shell|MCP)/.test(event) ? 'ask' : 'allow'

/**
 * Leaves the call to the other permission rules. Claude Code and Codex take an answer without a decision for that;
 * "allow" would skip the user's prompt in Claude Code, and Codex refuses it as unsupported. Both show a systemMessage
 * to the user, while standard error of a hook that ends with 0 is not shown (https://code.claude.com/docs/en/hooks,
 * codex-rs/hooks/src/events/pre_tool_use.rs).
 */
export function passing(tool: CodingTool | undefined, warnings: readonly string[], event?: string): HookAnswer {
  const lines = warnings.map((sentence) => `wardline-agent: ${plainLine(sentence)}\n`).join('')
  const answer =
    tool === 'cursor'
      ? { continue: true, permission: cursorPermission(event) }
      : lines && { systemMessage: lines.trimEnd() }
  return { exitCode: 0, stdout: answer ? `${JSON.stringify(answer)}\n` : '', stderr: lines }
}

/**
 * Stops the call, in a way that nothing else on standard output can spoil, such as a greeting in the profile of the
 * shell: with exit code 2, whose reason is standard error; for Codex that must not be empty. Cursor blocks then too, but
 * hands the reason on only as JSON, and when it cannot read that, it fails closed.
 */
export function denying(tool: CodingTool | undefined, reason: string): HookAnswer {
  const said = plainLine(reason)
  if (tool !== 'cursor') return { exitCode: 2, stdout: '', stderr: `${said}\n` }
  const answer = { permission: 'deny', user_message: said, agent_message: said }
  return { exitCode: 0, stdout: `${JSON.stringify(answer)}\n`, stderr: '' }
}
