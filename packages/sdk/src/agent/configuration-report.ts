import { createHash } from 'node:crypto'
import { homedir } from 'node:os'
import { isAbsolute, resolve } from 'node:path'
import { isPassing, isRefused, isSuccess, type Service } from '../service.ts'
import type { AgentMemory } from './agent-memory.ts'
import type { AgentSettings, CodingTool, Environment } from './agent-settings.ts'
import { type Configuration, readConfiguration } from './configuration.ts'
import { reportMs } from './hook-reports.ts'

// Loaded only by a hook whose turn it is: the others must not wait for it.

/** After this an unchanged configuration is reported again, because the service forgets those that are not. */
const repeatMs = 600_000
/** A service that does not take the report is older, until it is updated. */
const refusedMs = 3_600_000
const refused = 'refused'
/** Folders that are remembered. The service takes 50 sources of an agent. */
const maxSources = 60

/** Variables in which coding agents give the folder of the project to hooks. A session can change its working folder. */
const projectSettings: Partial<Record<CodingTool, string>> = {
  'claude-code': 'CLAUDE_PROJECT_DIR',
  'gemini-cli': 'GEMINI_PROJECT_DIR',
  cursor: 'CURSOR_PROJECT_DIR',
}

interface ReportRequest {
  tool: CodingTool
  env: Environment
  settings: AgentSettings
  memory: AgentMemory
  service: Service
  /** Working folder of the call. */
  cwd: string | undefined
}

/** Reports what the coding agent is configured with, of the user and in its folder, unless the service knows it. */
export async function reportConfiguration({ tool, env, settings, memory, service, cwd }: ReportRequest): Promise<void> {
  const { key, instanceId } = settings
  const known = memory.configurations()
  const isKnown = (source: string, digest: string, ms: number) =>
    known[source]?.digest === digest && Math.abs(Date.now() - known[source].at) < ms
  if (isKnown(tool, refused, refusedMs)) return
  const home = homedir()
  const setting = projectSettings[tool]
  const given = (setting && env[setting]) || cwd
  const project = given !== undefined && isAbsolute(given) && resolve(given) !== home ? resolve(given) : undefined
  const report = async (configuration: Configuration) => {
    const body = JSON.stringify(configuration)
    const digest = createHash('sha256').update(body).digest('hex')
    if (isKnown(configuration.source, digest, repeatMs)) return []
    const answer = await service.call(`instances/${instanceId}/config`, { method: 'PUT', body, timeoutMs: reportMs })
    const isUnusable = !isSuccess(answer) && (isPassing(answer) || isRefused(answer))
    const state = { digest: isSuccess(answer) ? digest : refused, at: Date.now() }
    return isUnusable ? [] : [[configuration.source, state] as const]
  }
  const reported = await Promise.all(readConfiguration({ tool, env, key, home, project }).map(report))
  const news = Object.fromEntries(reported.flat())
  if (Object.keys(news).length === 0) return
  const all = Object.entries({ ...known, ...news }).sort(([, one], [, other]) => other.at - one.at)
  memory.keepConfigurations(Object.fromEntries(all.slice(0, maxSources)))
}
