import { isMessage } from './mcp-messages.ts'

/** Tools of a listing that are compared: ten times as many as a model can use. */
export const maxTools = 2_000
/** Pages of a listing: servers have some hundred tools on each. A server that announces one more for ever has no list. */
const maxPages = 100

/** Tools by name once they are all known; `none` for a listing that is too long to be compared. */
export type Listed = ReadonlyMap<string, unknown> | 'none'

/** Joins the pages of a listing. A part of it would look like tools that were removed. */
export class ToolListing {
  #tools: Map<string, unknown> | undefined
  #pages = 0

  /** Call with each answer to `tools/list`; `isFirst`: without a cursor. Returns the listing that it ends. */
  add(result: unknown, isFirst: boolean): Listed | undefined {
    const { tools, nextCursor } = isMessage(result) ? result : {}
    if (!Array.isArray(tools)) return undefined
    if (isFirst) {
      this.#tools = new Map()
      this.#pages = 0
    }
    const listed = this.#tools
    if (!listed) return undefined
    for (const tool of tools) {
      const { name } = isMessage(tool) ? tool : {}
      if (typeof name === 'string' && listed.size <= maxTools) listed.set(name, tool)
    }
    this.#pages += 1
    const isLast = nextCursor === undefined || nextCursor === null
    const isTooLong = listed.size > maxTools || (!isLast && this.#pages >= maxPages)
    if (isLast || isTooLong) this.#tools = undefined
    return isTooLong ? 'none' : isLast ? listed : undefined
  }
}
