import { createHash } from 'node:crypto'
import { homedir } from 'node:os'
import { isAbsolute, resolve } from 'node:path'
import { type Answer, isPassing, isRefused, isSuccess, type Service } from '../service.ts'
import type { AgentMemory, ReportedConfigurations } from './agent-memory.ts'
import type { AgentSettings, CodingTool } from './agent-settings.ts'
import { type Configuration, type Place, readConfiguration } from './configuration.ts'
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

interface ReportRequest extends Pick<Place, 'tool' | 'env' | 'managed' | 'program'>, Partial<Pick<Place, 'home'>> {
  settings: Pick<AgentSettings, 'key' | 'instanceId'>
  memory: Pick<AgentMemory, 'configurations' | 'keepConfigurations'>
  service: Pick<Service, 'call'>
  /** Working folder of the call. */
  cwd: string | undefined
}

/** What a process that goes on remembers of its reports. It asks again where nothing was accepted. */
export function processMemory(): ReportRequest['memory'] {
  let reported: ReportedConfigurations = {}
  return {
    configurations: () => reported,
    keepConfigurations: (all) => {
      reported = Object.fromEntries(Object.entries(all).filter(([, { digest }]) => digest !== refused))
    },
  }
}

/**
 * Reports what the coding agent is configured with, of the user and in its folder, unless the service knows it. Returns the
 * answers.
 */
export async function reportConfiguration(request: ReportRequest): Promise<Answer[]> {
  const { tool, env, settings, memory, service, cwd, home = homedir() } = request
  const { key, instanceId } = settings
  const known = memory.configurations()
  const isKnown = (source: string, digest: string, ms: number) =>
    known[source]?.digest === digest && Math.abs(Date.now() - known[source].at) < ms
  if (isKnown(tool, refused, refusedMs)) return []
  const setting = projectSettings[tool]
  const given = (setting && env[setting]) || cwd
  const project = given !== undefined && isAbsolute(given) && resolve(given) !== home ? resolve(given) : undefined
  const report = async (configuration: Configuration) => {
    const body = JSON.stringify(configuration)
    const digest = createHash('sha256').update(body).digest('hex')
    if (isKnown(configuration.source, digest, repeatMs)) return undefined
    const answer = await service.call(`instances/${instanceId}/config`, { method: 'PUT', body, timeoutMs: reportMs })
    const isUnusable = !isSuccess(answer) && (isPassing(answer) || isRefused(answer))
    const state = { digest: isSuccess(answer) ? digest : refused, at: Date.now() }
    return { answer, news: isUnusable ? [] : [[configuration.source, state] as const] }
  }
  const all = await Promise.all(readConfiguration({ ...request, key, home, project }).map(report))
  const reported = all.filter((each) => each !== undefined)
  const news = Object.fromEntries(reported.flatMap((each) => each.news))
  if (Object.keys(news).length > 0) keep(memory, { ...known, ...news })
  return reported.map(({ answer }) => answer)
}

function keep(memory: ReportRequest['memory'], reported: ReportedConfigurations): void {
  const all = Object.entries(reported).sort(([, one], [, other]) => other.at - one.at)
  memory.keepConfigurations(Object.fromEntries(all.slice(0, maxSources)))
}
