import { flag, oneOf, type SearchOf, searchParams, text } from '../data/search-params.ts'

const tabs = [
  'javascript',
  'claude-code',
  'codex',
  'cursor',
  'gemini-cli',
  'copilot-cli',
  'opencode',
  'openclaw',
  'mcp',
  'python',
  'any',
  'model',
  'telemetry',
  'curl',
] as const
export type Tab = (typeof tabs)[number]

export const connectSearch = searchParams({
  tab: oneOf(tabs),
  /** The agent to connect; its key is never in the address. */
  agent: text,
  /** The dialog that simulates an attack is open. */
  simulate: flag,
})
export type ConnectSearch = SearchOf<typeof connectSearch>
