import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { productNames, readAgentSettings } from './agent/agent-settings.ts'
import { disablingFiles } from './agent/configuration.ts'
import { BoundedReader } from './agent/configuration-files.ts'
import { processMemory, reportConfiguration } from './agent/configuration-report.ts'
import { isHookEntry as isEntry } from './agent/hook-entries.ts'
import { hookSettingsFile, settingsFolder } from './agent/hook-settings.ts'
import { hasPlugin, isPlugin } from './agent/plugin-text.ts'
import { isRefused, parseSettings } from './agent/settings-text.ts'
import { codingTools } from './coding-tools.ts'
import { isSuccess, Service } from './service.ts'

// For `wardline doctor`, which must find what `install` and the hook find. Comments of this form are not published.

export type Tool = 'claude-code' | 'codex' | 'cursor' | 'gemini-cli' | 'copilot-cli' | 'opencode' | 'openclaw'
type Env = Readonly<Record<string, string | undefined>>

export const tools: readonly Tool[] = codingTools
export const products: Readonly<Record<Tool, string>> = productNames
// Whether an entry of settings runs the hook.
export const isHookEntry: (entry: unknown) => boolean = isEntry
// The user's file with the hooks.
export const hooksFile = (tool: Tool, env: Env, home: string): string => hookSettingsFile(tool, env, false, home)

// Bytes of a file, or why they are not known; undefined without a file.
export function readFile(folder: string, name: string): Uint8Array | { state: string } | undefined {
  return new BoundedReader().find(folder, name)[0]?.content
}

// Parses a file with hooks; of a plugin, only these. Throws if the coding agent refuses it.
export function parseHooks(tool: Tool, text: string): unknown {
  if (isRefused(tool, text)) throw new Error()
  if (!hasPlugin(tool)) return parseSettings(text)
  const hooks = isPlugin(tool, text) ? /^const hooks = (.*)$/m.exec(text)?.[1] : undefined
  return { hooks: JSON.parse(hooks ?? '{}') }
}

// What disables the user's hook, and a file of administrators that may. `managed`: their folder.
export const disabling = (
  tool: Tool,
  env: Env,
  home: string,
  managed?: string,
): { off: string | undefined; unknown: string | undefined } =>
  disablingFiles({ tool, env, key: '', home, project: undefined, managed })

// The command `wardline-agent` beside this module, as source or compiled.
const program = ['./wardline-agent.ts', '../wardline-agent.js']
  .map((path) => fileURLToPath(new URL(path, import.meta.url)))
  .find(existsSync)

// Result of a report; `status` 0: no answer, undefined: invalid settings.
export interface Reported {
  instanceId: string
  status: number | undefined
  changes: number
  fault: string | undefined
}

// Reports the user's configuration with the agent's key. Undefined where the coding agent was never used.
export async function reportNow(tool: Tool, env: Env, home: string, managed?: string): Promise<Reported | undefined> {
  if (!existsSync(settingsFolder(tool, env, home))) return undefined
  const settings = readAgentSettings(env, tool, false)
  if ('fault' in settings) return { instanceId: '', status: undefined, changes: 0, fault: settings.fault }
  const service = new Service(settings)
  const memory = processMemory()
  const request = { tool, env, home, managed, program, settings, memory, service, cwd: undefined }
  const [answer] = await reportConfiguration(request)
  const fault = isSuccess(answer!) ? undefined : service.explain(answer!).message
  return { instanceId: settings.instanceId, status: answer!.status, changes: Number(answer!.body.changes), fault }
}
