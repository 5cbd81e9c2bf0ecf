import { uncheckedReason } from '../denied.ts'
import type { FailMode } from '../monitor.ts'
import { plainLine } from '../plain-line.ts'
import type { CodingTool } from './agent-settings.ts'

export interface HookAnswer {
  exitCode: number
  stdout: string
  stderr: string
}

/**
 * Returns the permission with which Cursor's own approvals still decide. Before a tool, "allow" leaves the approvals
 * unchanged, "ask" is not enforced, and a missing permission counts as a failed hook (https://cursor.com/docs/hooks,
 * October 2026; https://github.com/ldayton/Dippy/issues/129). For a shell command, an MCP tool or an unreadable call,
 * only "ask" never replaces the user's approval: Cursor lists it as a bug that "allow" does not skip it
 * (https://forum.cursor.com/t/144244, https://forum.cursor.com/t/155434).
 */
const cursorPermission = (event: string | undefined): 'allow' | 'ask' =>
  event === undefined || /^before(Shell|MCP)/.test(event) ? 'ask' : 'allow'

/**
 * Leaves the call to the other permission rules. For that, Claude Code and Codex expect an answer without a decision;
 * "allow" would skip the user's prompt in Claude Code, and Codex rejects it as unsupported. Both show a systemMessage
 * to the user, but not the standard error of a hook that exits with 0 (https://code.claude.com/docs/en/hooks,
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
 * Blocks the call even if something else writes to standard output, such as a greeting in the shell profile. Exit code
 * 2 blocks, with standard error as the reason, which must not be empty for Codex. Cursor also blocks on 2, but passes
 * the reason on only as JSON; if it cannot parse that, it fails closed. Copilot CLI blocks on 2 as well, and takes the
 * reason from JSON if nothing else was written.
 */
export function denying(tool: CodingTool | undefined, reason: string): HookAnswer {
  const said = plainLine(reason)
  if (tool === 'copilot-cli') {
    const answer = { permissionDecision: 'deny', permissionDecisionReason: said }
    return { exitCode: 2, stdout: `${JSON.stringify(answer)}\n`, stderr: `${said}\n` }
  }
  if (tool !== 'cursor') return { exitCode: 2, stdout: '', stderr: `${said}\n` }
  const answer = { permission: 'deny', user_message: said, agent_message: said }
  return { exitCode: 0, stdout: `${JSON.stringify(answer)}\n`, stderr: '' }
}

/**
 * Whether the coding agent asks its user when a hook says so: Claude Code except in modes that skip prompts
 * (https://github.com/anthropics/claude-code/issues/95741), Cursor except before a tool, where "ask" is not enforced. Codex
 * runs the tool (https://github.com/openai/codex/issues/28437). Gemini CLI 0.61 asks, but waits for ever without a terminal.
 * Copilot CLI 1.0.102 asks in every mode, also with --allow-all, and denies without a terminal.
 */
export const canAskUser = (tool: CodingTool | undefined, event: string, permissionMode: string | undefined): boolean =>
  tool === 'cursor'
    ? cursorPermission(event) === 'ask'
    : tool === 'copilot-cli' ||
      (tool === 'claude-code' && /^(?:default|acceptEdits|plan)$/.test(permissionMode ?? 'default'))

/** Has the coding agent ask its user, if `canAskUser`. */
export function asking(tool: CodingTool | undefined, reason: string): HookAnswer {
  const said = plainLine(reason)
  const decision = { permissionDecision: 'ask', permissionDecisionReason: said }
  const answer =
    tool === 'cursor'
      ? { permission: 'ask', user_message: said, agent_message: said }
      : tool === 'copilot-cli'
        ? decision
        : { hookSpecificOutput: { hookEventName: 'PreToolUse', ...decision } }
  return { exitCode: 0, stdout: `${JSON.stringify(answer)}\n`, stderr: '' }
}

/** What a hook knows about the call so far, for an answer after a failure of the hook itself. */
export interface HookProgress {
  /** "closed" until the settings are read: they may say so, and may be unreadable. */
  failMode: FailMode
  /** Whether the author of the arguments may be the cause of the failure: they are long, or the service is not away. */
  mustCheck: boolean
  /** The decision on the call, while it is being reported. */
  decided: HookAnswer | undefined
}

/** Answers after a failure of the hook, such as a timeout. */
export function failing(tool: CodingTool | undefined, progress: HookProgress, sentence: string): HookAnswer {
  if (progress.decided) return progress.decided
  const passes = progress.failMode === 'open' && !progress.mustCheck
  return passes ? passing(tool, [sentence]) : denying(tool, uncheckedReason(sentence))
}
