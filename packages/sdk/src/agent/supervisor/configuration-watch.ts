import { basename } from 'node:path'
import { codingTools } from '../../coding-tools.ts'
import type { Service } from '../../service.ts'
import { configurationEveryMs } from '../agent-memory.ts'
import type { CodingTool, Environment } from '../agent-settings.ts'
import { processMemory, reportConfiguration } from '../configuration-report.ts'
import { serverDetails } from '../server-address.ts'

/** Returns the coding agent that a command starts, by its program, its package or the id of its instance. */
export function codingToolOf(command: string, args: readonly string[], instanceId: string): CodingTool | undefined {
  const { command: shown = '' } = serverDetails({ command, args })
  const name = basename(shown.split(' ').at(-1)!)
  return codingTools.find((tool) => {
    const [product] = tool.split('-')
    const isNamed = new RegExp(`^${product}([-.](agent|ai|cli|code|m?js))*$`).test(name)
    return isNamed || instanceId.startsWith(`${tool}-`)
  })
}

interface Watched {
  tool: CodingTool
  /** Environment and home folder of the coding agent. */
  env: Environment
  home: string
  settings: { key: string; instanceId: string }
  service: Service
  /** A suspended agent is not at work, so nothing is reported of it. */
  isSuspended(): boolean
}

/** Reports the configuration of a coding agent now and when it changes. Returns a function that ends that. */
export function watchConfiguration({ isSuspended, ...watched }: Watched): () => void {
  const request = { ...watched, memory: processMemory(), cwd: process.cwd() }
  // The next turn repeats what fails.
  const report = () => void (isSuspended() || reportConfiguration(request).catch(() => {}))
  report()
  const timer = setInterval(report, configurationEveryMs)
  return () => clearInterval(timer)
}
