import { type CallAction, toolTable } from './tool-table.ts'

type Kind = keyof typeof toolTable.arguments

const setOf = (names: string): ReadonlySet<string> => new Set(names.split(' '))
const byName = <Value extends string>(lists: Record<string, string>): ReadonlyMap<string, Value> =>
  new Map(Object.entries(lists).flatMap(([value, names]) => names.split(' ').map((name) => [name, value as Value])))

const tools = byName<CallAction | 'method'>(toolTable.tools)
const verbs = byName<CallAction>(toolTable.verbs)
const nouns = byName<CallAction>(toolTable.nouns)
const sent = setOf(toolTable.sending.objects)
const sending = setOf(toolTable.sending.verbs)
const kinds = Object.entries(toolTable.arguments).map(([kind, names]) => [kind as Kind, setOf(names)] as const)
const byLastWord: readonly Kind[] = ['path', 'address', 'host', 'command']

/** The words of a name, in lower case: `readFile`, `read-file` and `read_file` have the same. */
const wordsOf = (name: string): string[] =>
  name
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter(Boolean)

/** What arguments with this name hold. */
export function kindsOf(name: string): ReadonlySet<Kind> {
  const words = wordsOf(name)
  const last = words.at(-1) ?? ''
  const whole = words.join('')
  return new Set(
    kinds
      .filter(([kind, names]) => names.has(whole) || (byLastWord.includes(kind) && names.has(last)))
      .map(([kind]) => kind),
  )
}

function actionOfVerb(words: readonly string[]): CallAction | undefined {
  const verb = words.find((word) => verbs.has(word))
  const action = verbs.get(verb ?? '')
  if (action !== 'write' || !sending.has(verb!) || words.includes('draft')) return action
  const object = words.findLast((word) => !verbs.has(word)) ?? ''
  return sent.has(object) || sent.has(object.replace(/s$/, '')) ? 'send' : action
}

/** What the name of a tool says of its calls. */
export interface NamedTool {
  action: CallAction | undefined
  /** An argument such as `command` holds the name of a method. */
  isByMethod: boolean
}

/** `method` is what the arguments have of such a name. */
export function namedTool(toolName: string, method: string | undefined): NamedTool {
  const words = wordsOf(toolName.replace(/^mcp__.*?__/s, ''))
  const ends = words.map((_, at) => words.slice(at).join(''))
  const row = tools.get(ends.find((end, at) => tools.has(end) && (at === 0 || at < words.length - 1)) ?? '')
  if (row !== undefined && row !== 'method') return { action: row, isByMethod: false }
  const verb = row === undefined ? actionOfVerb(words) : undefined
  const said = verb ?? (row === undefined ? nouns.get(words.find((word) => nouns.has(word)) ?? '') : undefined)
  const action = said ?? (method === undefined ? undefined : actionOfVerb(wordsOf(method)))
  return { action, isByMethod: row === 'method' }
}
