// Changes one place of a JSON text and no other byte, so that settings keep their formatting. The text must be valid
// JSON.

type Path = readonly (string | number)[]

interface Item {
  from: number
  to: number
  /** Index in the text where the value starts. */
  at: number
  key: string | undefined
}

interface Container {
  open: number
  close: number
  items: Item[]
}

/**
 * Parses the object or list that starts at `open`. Nested ones are skipped by counting brackets, so depth is not
 * limited.
 */
function containerAt(json: string, open: number): Container {
  const token = /"[^"\\]*(?:\\.[^"\\]*)*"|[^\s"]/g
  token.lastIndex = open + 1
  const items: Item[] = []
  let item: Item | undefined
  let isKeyed = false
  for (let depth = 1; ; ) {
    const { 0: text, index } = token.exec(json)!
    if (text === '}' || text === ']') depth--
    if (item && (depth === 0 || (depth === 1 && text === ','))) items.push(item)
    if (depth === 0) return { open, close: index, items }
    if (depth === 1 && text === ',') item = undefined
    else if (depth === 1 && text === ':') {
      item!.key = JSON.parse(json.slice(item!.from, item!.to))
      isKeyed = true
    } else {
      item ??= { from: index, to: index, at: index, key: undefined }
      if (isKeyed) item.at = index
      isKeyed = false
      item.to = token.lastIndex
    }
    if (text === '{' || text === '[') depth++
  }
}

const indexIn = ({ items }: Container, step: string | number): number =>
  // Of duplicate names, the last one counts, as for JSON.parse.
  typeof step === 'number' ? step : items.findLastIndex(({ key }) => key === step)

function follow(json: string, path: Path): Container {
  const root = containerAt(json, json.search(/[[{]/))
  return path.reduce((found: Container, step) => containerAt(json, found.items[indexIn(found, step)]!.at), root)
}

/** Removes a member or an entry, which must exist. */
export function without(json: string, path: Path): string {
  const container = follow(json, path.slice(0, -1))
  const { open, close, items } = container
  const index = indexIn(container, path.at(-1)!)
  const [before, item, after] = [items[index - 1], items[index]!, items[index + 1]]
  const [from, to] = before ? [before.to, item.to] : after ? [item.from, after.from] : [open + 1, close]
  return json.slice(0, from) + json.slice(to)
}

/** Inserts a member or an entry into the object or list at `path`, formatted like its neighbours. */
export function withItem(json: string, path: Path, index: number, value: unknown, key?: string): string {
  const { open, close, items } = follow(json, path)
  const lineEnd = json.includes('\r\n') ? '\r\n' : '\n'
  const unit = /^([ \t]+)\S/m.exec(json)?.[1] ?? '  '
  const outer = lineEnd + /^[ \t]*/.exec(json.slice(json.lastIndexOf('\n', open) + 1))![0]
  const gap = items[0] ? json.slice(open + 1, items[0].from) : outer + unit
  // Keep a list on one line if it is on one.
  const text = gap.includes('\n')
    ? JSON.stringify(value, null, unit).replaceAll('\n', lineEnd + gap.slice(gap.lastIndexOf('\n') + 1))
    : JSON.stringify(value)
  const item = key === undefined ? text : `${JSON.stringify(key)}: ${text}`
  const last = items[Math.min(index, items.length) - 1]
  if (last) return `${json.slice(0, last.to)},${gap}${item}${json.slice(last.to)}`
  const [first] = items
  if (first) return `${json.slice(0, first.from)}${item},${gap}${json.slice(first.from)}`
  return json.slice(0, open + 1) + gap + item + outer + json.slice(close)
}
