import { createHash, createHmac } from 'node:crypto'
import { basename } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { argsHash } from '@wardline/policy'
import { plainLine } from '../plain-line.ts'
import { isPassing, isSuccess, type Service } from '../service.ts'
import { serverDetails } from './server-address.ts'
import type { Listed } from './tool-listing.ts'

/** The service accepts as many. */
const maxItems = 1_000
const maxName = 200
const requestMs = 5_000
/** Waits after a failed report; then the next listing reports again. */
const retriesMs = [1_000, 5_000, 15_000, 60_000]

interface ToolItem {
  kind: 'tool'
  name: string
  sha256: string
}

/**
 * Names the server by its command line, not by what it says of itself: a server that was replaced would choose another
 * name. Arguments may hold secrets, so only their keyed hash is part of it.
 */
export function sourceOf(key: string, command: string, args: readonly string[]): string {
  const { command: shown = 'server' } = serverDetails({ command, args })
  // Of a package the name without its scope.
  const label = basename(shown.split(' ').at(-1)!)
    .toLowerCase()
    .replaceAll(/[^a-z0-9._-]/g, '-')
    .slice(0, 60)
  return `mcp:${label}-${keyedHash(key, 'command', JSON.stringify([command, ...args])).slice(0, 8)}`
}

const keyedHash = (key: string, what: string, text: string): string =>
  createHmac('sha256', key).update(`wardline-${what}\n`).update(text).digest('hex')

function fingerprint(key: string, tool: unknown): string {
  const hash = argsHash(tool)
  if (hash !== undefined) return keyedHash(key, 'tool', hash)
  try {
    // Nested more deeply than any tool: then another order of its fields is a change too.
    return keyedHash(key, 'tool', JSON.stringify(tool))
  } catch {
    return keyedHash(key, 'tool', 'unreadable')
  }
}

/** The service knows this name too. */
const notCompared = 'tools: not compared, too many'

/** Returns an item for each tool, with a hash of all that the model reads of it. */
export function toolItems(key: string, tools: Listed): ToolItem[] {
  if (tools === 'none') return [{ kind: 'tool', name: notCompared, sha256: keyedHash(key, 'tool', '') }]
  const items = new Map<string, ToolItem>()
  for (const [given, tool] of [...tools].sort(([one], [other]) => (one < other ? -1 : 1))) {
    const cleaned = [...plainLine(given)].slice(0, maxName - 5).join('') || 'tool without a name'
    let name = cleaned
    for (let number = 2; items.has(name) || name === notCompared; number++) name = `${cleaned} ${number}`
    items.set(name, { kind: 'tool', name, sha256: fingerprint(key, tool) })
  }
  const all = [...items.values()]
  if (all.length <= maxItems) return all
  // A change of those that have no room must be seen too.
  const shown = all.slice(0, maxItems - 1).filter(({ name }) => name !== restName)
  const rest = all.slice(maxItems - 1).map(({ name, sha256 }) => `${name} ${sha256}`)
  return [...shown, { kind: 'tool', name: restName, sha256: keyedHash(key, 'tool', rest.join('\n')) }]
}
const restName = 'all further tools'

/** Reports what tools a server lists, so that one that describes them differently later is noticed. */
export class ToolReport {
  readonly #key: string
  readonly #source: string
  readonly #path: string
  readonly #service: Pick<Service, 'call'>
  readonly #ready: Promise<unknown>
  #reported = ''
  #waiting: string | undefined

  /** `ready` resolves once the instance is registered. */
  constructor(
    { key, instanceId }: { key: string; instanceId: string },
    server: { command: string; args: readonly string[] },
    { service, ready }: { service: Pick<Service, 'call'>; ready: Promise<unknown> },
  ) {
    this.#key = key
    this.#source = sourceOf(key, server.command, server.args)
    this.#path = `instances/${instanceId}/config`
    this.#service = service
    this.#ready = ready
  }

  /** Call with each listing that has ended. */
  take(tools: Listed): void {
    const body = JSON.stringify({ source: this.#source, items: toolItems(this.#key, tools) })
    const digest = createHash('sha256').update(body).digest('hex')
    if (digest === this.#reported) return
    this.#reported = digest
    const isIdle = this.#waiting === undefined
    this.#waiting = body
    if (isIdle) void this.#send()
  }

  async #send(): Promise<void> {
    await this.#ready
    for (const retryMs of [...retriesMs, undefined]) {
      const body = this.#waiting
      if (body === undefined) break
      const answer = await this.#service.call(this.#path, { method: 'PUT', body, timeoutMs: requestMs })
      const isStored = isSuccess(answer)
      if (isStored && this.#waiting !== body) continue
      if (isStored || !(isPassing(answer) || answer.status === 404) || retryMs === undefined) {
        if (!isStored) this.#reported = ''
        break
      }
      await wait(retryMs, undefined, { ref: false })
    }
    this.#waiting = undefined
  }
}
