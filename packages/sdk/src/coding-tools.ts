/** Coding agents whose tool calls are hooked. */
export const codingTools = [
  'claude-code',
  'codex',
  'cursor',
  'gemini-cli',
  'copilot-cli',
  'opencode',
  'openclaw',
] as const
