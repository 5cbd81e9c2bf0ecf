import type { CodingTool } from './agent-settings.ts'

export type ItemKind = 'hook' | 'permission' | 'server' | 'skill' | 'plugin' | 'instructions' | 'tool'

/** A file of a coding agent's configuration. */
export interface Source {
  /** Below the home folder, the user's folder of the coding agent, the project, or the folder of administrators. */
  in: 'home' | 'user' | 'project' | 'managed'
  /** One part of the path may contain `*`. */
  path: string
  /** Kind of the item that the file is as a whole; undefined for settings in JSON, with an item for each entry. */
  whole?: ItemKind
  /** The only members that are configuration. */
  only?: readonly string[]
}

const inBoth = (path: string, projectPath: string, more: Omit<Source, 'in' | 'path'> = {}): Source[] => [
  { in: 'user', path, ...more },
  { in: 'project', path: projectPath, ...more },
]
const text = { whole: 'instructions' } as const
const skill = { whole: 'skill' } as const
const agents: Source = { in: 'project', path: 'AGENTS.md', ...text }

/** What is read, settings first: what is beyond the limits is reported only as one item. */
export const sources: Record<CodingTool, readonly Source[]> = {
  'claude-code': [
    ...inBoth('settings.json', '.claude/settings.json'),
    { in: 'project', path: '.claude/settings.local.json' },
    { in: 'project', path: '.mcp.json' },
    // In the order in which Claude Code merges them.
    { in: 'managed', path: 'managed-settings.json' },
    { in: 'managed', path: 'managed-settings.d/*.json' },
    ...inBoth('CLAUDE.md', 'CLAUDE.md', text),
    { in: 'project', path: '.claude/CLAUDE.md', ...text },
    { in: 'project', path: 'CLAUDE.local.md', ...text },
    ...inBoth('skills/*/SKILL.md', '.claude/skills/*/SKILL.md', skill),
    ...inBoth('agents/*.md', '.claude/agents/*.md', text),
  ],
  codex: [
    ...inBoth('hooks.json', '.codex/hooks.json'),
    // There is no parser of TOML here.
    ...inBoth('config.toml', '.codex/config.toml', { whole: 'permission' }),
    { in: 'user', path: 'AGENTS.md', ...text },
    agents,
    ...inBoth('skills/*/SKILL.md', '.codex/skills/*/SKILL.md', skill),
  ],
  cursor: [
    ...inBoth('hooks.json', '.cursor/hooks.json'),
    ...inBoth('mcp.json', '.cursor/mcp.json'),
    ...inBoth('cli-config.json', '.cursor/cli.json', { only: ['permissions'] }),
    agents,
    ...inBoth('rules/*.mdc', '.cursor/rules/*.mdc', text),
  ],
  'gemini-cli': [
    ...inBoth('settings.json', '.gemini/settings.json'),
    ...inBoth('GEMINI.md', 'GEMINI.md', text),
    ...inBoth('extensions/*/gemini-extension.json', '.gemini/extensions/*/gemini-extension.json', { whole: 'plugin' }),
    ...inBoth('skills/*/SKILL.md', '.gemini/skills/*/SKILL.md', skill),
  ],
  'copilot-cli': [
    ...inBoth('hooks/*.json', '.github/hooks/*.json'),
    { in: 'user', path: 'settings.json' },
    { in: 'user', path: 'mcp-config.json' },
    ...inBoth('copilot-instructions.md', '.github/copilot-instructions.md', text),
    agents,
    ...inBoth('skills/*/SKILL.md', '.github/skills/*/SKILL.md', skill),
    ...inBoth('agents/*.md', '.github/agents/*.md', text),
  ],
  opencode: [
    ...inBoth('opencode.json', 'opencode.json'),
    ...inBoth('plugins/*', '.opencode/plugins/*', { whole: 'plugin' }),
    { in: 'user', path: 'AGENTS.md', ...text },
    agents,
  ],
  openclaw: [
    { in: 'user', path: 'openclaw.json', only: ['plugins', 'tools', 'mcp'] },
    { in: 'user', path: 'wardline.js', whole: 'plugin' },
    agents,
    ...inBoth('skills/*/SKILL.md', 'skills/*/SKILL.md', skill),
  ],
}

/** Folders in which administrators put settings of Claude Code: https://code.claude.com/docs/en/managed-settings. */
export const managedFolders: Partial<Record<NodeJS.Platform, string>> = {
  linux: '/etc/claude-code',
  darwin: '/Library/Application Support/ClaudeCode',
  win32: 'C:\\Program Files\\ClaudeCode',
}

/** Claude Code's state, of which only the servers are configuration. With CLAUDE_CONFIG_DIR it is in that folder. */
export const claudeState = (isMoved: boolean): Source => ({
  in: isMoved ? 'user' : 'home',
  path: '.claude.json',
  only: ['mcpServers'],
})

/** Members that change how a coding agent looks, or that it writes itself. All others are configuration. */
export const cosmetic: ReadonlySet<string> = new Set([
  '$schema',
  'version',
  'model',
  'effortLevel',
  'theme',
  'ui',
  'ide',
  'language',
  'verbose',
  'editorMode',
  'viewMode',
  'attribution',
  'includeCoAuthoredBy',
  'cleanupPeriodDays',
  'autoUpdatesChannel',
  'spinnerTipsEnabled',
  'alwaysThinkingEnabled',
  'feedbackSurveyState',
])

type Fields = Record<string, unknown>

export const fieldsOf = (value: unknown): Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {}

export const listOf = (list: unknown): unknown[] => (Array.isArray(list) ? list : [])

/** Returns the setting that disables our hook, whatever its entry says; undefined if there is none. */
export function disablingSetting(tool: CodingTool, settings: Fields): string | undefined {
  if (tool !== 'gemini-cli') return settings.disableAllHooks === true ? 'disableAllHooks' : undefined
  // Gemini CLI 0.61 has hooksConfig; earlier versions had the others.
  const [config, hooks, tools] = [settings.hooksConfig, settings.hooks, settings.tools].map(fieldsOf) as [
    Fields,
    Fields,
    Fields,
  ]
  const isDisabled = (hook: unknown) => hook === 'wardline' || /\bwardline-agent\b/.test(String(hook))
  const isOff =
    [config.enabled, hooks.enabled, tools.enableHooks].includes(false) ||
    [...listOf(config.disabled), ...listOf(hooks.disabled)].some(isDisabled)
  return isOff ? 'hooksConfig' : undefined
}

/** Whether Codex's config.toml may disable hooks: `hooks` or `codex_hooks` is false, in any table. */
export const tomlDisablesHooks = (toml: string): boolean =>
  toml.split('\n').some((line) => /^(?!\s*#).*\b(?:codex_)?hooks["']?\s*=\s*false\b/.test(line))
