import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import type { CodingTool, Environment } from './agent-settings.ts'

interface HookSettings {
  folder: string
  /** Variable with the path of the user's folder. */
  folderSetting?: string
  /** Variable with the path of the folder in which that is, and the path below the home folder otherwise. */
  homeSetting?: string
  home?: string
  /** The folder in a project, if it has another name. */
  projectFolder?: string
  /** The file with the hooks. */
  file: string
}

const settings: Record<CodingTool, HookSettings> = {
  'claude-code': { folder: '.claude', folderSetting: 'CLAUDE_CONFIG_DIR', file: 'settings.json' },
  codex: { folder: '.codex', folderSetting: 'CODEX_HOME', file: 'hooks.json' },
  cursor: { folder: '.cursor', file: 'hooks.json' },
  'gemini-cli': { folder: '.gemini', homeSetting: 'GEMINI_CLI_HOME', file: 'settings.json' },
  // It reads every file in the folder.
  'copilot-cli': {
    folder: '.copilot',
    folderSetting: 'COPILOT_HOME',
    projectFolder: '.github',
    file: join('hooks', 'wardline.json'),
  },
  opencode: {
    folder: 'opencode',
    homeSetting: 'XDG_CONFIG_HOME',
    home: '.config',
    projectFolder: '.opencode',
    file: join('plugins', 'wardline.js'),
  },
  openclaw: {
    folder: '.openclaw',
    folderSetting: 'OPENCLAW_STATE_DIR',
    homeSetting: 'OPENCLAW_HOME',
    file: 'wardline.js',
  },
}

/** Returns the folder with the user's settings of a coding agent. */
export function settingsFolder(tool: CodingTool, env: Environment, homeFolder = homedir()): string {
  const { folder, folderSetting, homeSetting, home = '' } = settings[tool]
  return (
    (folderSetting && env[folderSetting]) || join((homeSetting && env[homeSetting]) || join(homeFolder, home), folder)
  )
}

/** Returns the path of the file with the hooks, of the user or of the working folder. */
export function hookSettingsFile(tool: CodingTool, env: Environment, inProject: boolean, homeFolder?: string): string {
  const { folder, projectFolder, file } = settings[tool]
  return resolve(inProject ? (projectFolder ?? folder) : settingsFolder(tool, env, homeFolder), file)
}

/** Returns the path of the configuration that enables the plugin of OpenClaw. */
export const openclawConfig = (env: Environment, homeFolder?: string): string =>
  resolve(env.OPENCLAW_CONFIG_PATH || join(settingsFolder('openclaw', env, homeFolder), 'openclaw.json'))
