import { codingTools, productNames } from './agent/agent-settings.ts'
import { disablingFiles } from './agent/configuration.ts'
import { BoundedReader } from './agent/configuration-files.ts'
import { isHookEntry as isEntry } from './agent/hook-entries.ts'
import { hookSettingsFile } from './agent/hook-settings.ts'
import { hasPlugin, isPlugin } from './agent/plugin-text.ts'
import { isRefused, parseSettings } from './agent/settings-text.ts'

// For `wardline doctor`, which must find what `install` and the hook find.

export type Tool = 'claude-code' | 'codex' | 'cursor' | 'gemini-cli' | 'copilot-cli' | 'opencode' | 'openclaw'
type Env = Readonly<Record<string, string | undefined>>

export const tools: readonly Tool[] = codingTools
export const products: Readonly<Record<Tool, string>> = productNames
/** Whether an entry of settings runs the hook. */
export const isHookEntry: (entry: unknown) => boolean = isEntry
/** The user's file with the hooks. */
export const hooksFile = (tool: Tool, env: Env, home: string): string => hookSettingsFile(tool, env, false, home)

/** Bytes of a file, or why they are not known; undefined without a file. */
export function readFile(folder: string, name: string): Uint8Array | { state: string } | undefined {
  return new BoundedReader().find(folder, name)[0]?.content
}

/** Parses a file with hooks; of a plugin, only these. Throws if the coding agent refuses it. */
export function parseHooks(tool: Tool, text: string): unknown {
  if (isRefused(tool, text)) throw new Error('byte order mark')
  if (!hasPlugin(tool)) return parseSettings(text)
  const hooks = isPlugin(tool, text) ? /^const hooks = (.*)$/m.exec(text)?.[1] : undefined
  return { hooks: JSON.parse(hooks ?? '{}') }
}

/** What disables the user's hook, and a file of administrators that may. `managed`: their folder. */
export const disabling = (
  tool: Tool,
  env: Env,
  home: string,
  managed?: string,
): { off: string | undefined; unknown: string | undefined } =>
  disablingFiles({ tool, env, key: '', home, project: undefined, managed })
