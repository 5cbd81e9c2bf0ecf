import type { CodingTool } from './agent-settings.ts'
import { plainLine } from './plain-line.ts'

export interface HookAnswer {
  exitCode: number
  stdout: string
  stderr: string
}

const lines = (sentences: readonly string[]): string =>
  sentences.map((sentence) => `wardline-agent: ${plainLine(sentence)}\n`).join('')

/**
 * Lets the call go on to whatever else decides about it. Claude Code and Codex take silence for that; "allow" would
 * spare the user's own questions. Cursor, told to fail closed, takes silence for a failure.
 */
export function passing(tool: CodingTool | undefined, warnings: readonly string[]): HookAnswer {
  const stdout = tool === 'cursor' ? '{"continue":true,"permission":"allow"}\n' : ''
  return { exitCode: 0, stdout, stderr: lines(warnings) }
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
