/** Nesting of arguments and answers that is followed. Deeper values count as unreadable. */
const maxDepth = 32

export interface Plain {
  value: unknown
  /** False if something was left out: it is nested too deeply, there is too much of it, or reading it failed. */
  isComplete: boolean
}

/**
 * Copies a value as JSON would write it, without ever throwing: objects without a prototype, large integers as text, nothing
 * for functions. Numbers that JSON cannot write stay, so that a comparison with them is unknown.
 */
export function plainOf(value: unknown, maxNodes: number): Plain {
  let nodes = 0
  let isComplete = true
  const lost = (): undefined => {
    isComplete = false
  }
  const copy = (one: unknown, depth: number): unknown => {
    if (typeof one === 'bigint') return String(one)
    if (typeof one === 'function' || typeof one === 'symbol') return undefined
    if (typeof one !== 'object' || one === null) return one
    nodes += 1
    if (depth >= maxDepth || nodes > maxNodes) return lost()
    if (one instanceof String || one instanceof Number || one instanceof Boolean) return one.valueOf()
    // Bytes are no text that a rule speaks of.
    if (ArrayBuffer.isView(one)) return null
    const { toJSON } = one as { toJSON?: unknown }
    if (typeof toJSON === 'function') {
      const written = toJSON.call(one, '')
      return written === one ? lost() : copy(written, depth + 1)
    }
    if (one instanceof Map) return copy([...one.entries()], depth)
    if (Array.isArray(one) || one instanceof Set) {
      const list: unknown[] = []
      for (const inner of one) {
        if (++nodes > maxNodes) return lost() ?? list
        list.push(copy(inner, depth + 1) ?? null)
      }
      return list
    }
    const fields = Object.create(null) as Record<string, unknown>
    for (const name of Object.keys(one)) {
      if (++nodes > maxNodes) return lost() ?? fields
      const inner = copy((one as Record<string, unknown>)[name], depth + 1)
      if (inner !== undefined) fields[name] = inner
    }
    return fields
  }
  try {
    const copied = copy(value, 0)
    return { value: copied, isComplete }
  } catch {
    return { value: undefined, isComplete: false }
  }
}
