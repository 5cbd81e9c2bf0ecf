import { lstatSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import { disabling, hooksFile, parseHooks, products, readFile, type Tool, tools } from '@wardline/sdk/coding-agents'

/** A coding agent whose file with hooks exists. */
export interface HookedAgent {
  tool: Tool
  product: string
  /** Where `wardline-agent install` registers the hook. */
  file: string
  /** Why the coding agent cannot use the file, as a sentence. */
  fault?: string
  /** Content of the file; of a plugin, only its hooks by event. */
  settings: unknown
  /** What disables the hook of the user, such as `disableAllHooks in settings.json`. */
  off: string | undefined
  /** Settings of administrators that cannot be read and may disable the hook. */
  unknown: string | undefined
}

const states: Readonly<Record<string, string>> = {
  'not a regular file': 'is not a regular file',
  'too large': 'is longer than 4 MiB',
}

function textOf(file: string): string | { fault: string } | undefined {
  const content = readFile(dirname(file), basename(file))
  if (content instanceof Uint8Array) return Buffer.from(content).toString()
  if (content) return { fault: states[content.state] ?? `cannot be read (${content.state})` }
  // Coding agents take it for no settings.
  return lstatSync(file, { throwIfNoEntry: false }) && { fault: 'is a link to a file that does not exist' }
}

/** Finds the coding agents of a user, without the settings of folders. `managed` is the folder of administrators. */
export function hookedAgents(env: NodeJS.ProcessEnv, home: string, managed?: string): HookedAgent[] {
  return tools.flatMap((tool): HookedAgent[] => {
    const file = hooksFile(tool, env, home)
    const text = textOf(file)
    if (text === undefined) return []
    const product = products[tool]
    const found = { tool, product, file, ...disabling(tool, env, home, managed) }
    if (typeof text !== 'string') return [{ ...found, settings: {}, fault: `${file} ${text.fault}.` }]
    try {
      return [{ ...found, settings: parseHooks(tool, text) }]
    } catch {
      const fault = text.startsWith('\ufeff')
        ? `begins with a byte order mark, which ${product} refuses`
        : 'is not valid JSON'
      return [{ ...found, settings: {}, fault: `${file} ${fault}.` }]
    }
  })
}
