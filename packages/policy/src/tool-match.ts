import { type Arguments, type Comparer, comparerOf, type Modifier, type Truth } from './conditions.ts'
import { matchesGlob } from './glob.ts'

/**
 * A tool as a policy names it: `volume_delete`, `mcp__github__*`, or `Bash(rm -rf *)` as in the settings of Claude Code, where
 * the text in brackets is compared with what the tool acts on. Upper and lower case are equal.
 */
export interface ToolPattern {
  text: string
  name: string
  argument: { modifier: Modifier; wanted: string; comparer: Comparer } | undefined
}

/** Arguments on which tools act, by what they hold. */
const actsOn: readonly [Modifier, readonly string[]][] = [
  ['command', ['command', 'cmd', 'script']],
  ['path', ['file_path', 'notebook_path', 'path', 'filename', 'file']],
  ['host', ['url', 'uri']],
]

export function toolPattern(text: string): ToolPattern | undefined {
  const [, name, inner] = /^([^\s()]+)(?:\((.*)\))?$/s.exec(text.trim()) ?? []
  if (name === undefined || inner === '') return undefined
  if (inner === undefined || inner === '*') return { text, name: name.toLowerCase(), argument: undefined }
  const argument = inner.startsWith('domain:')
    ? { modifier: 'host' as const, wanted: inner.slice('domain:'.length) }
    : {
        modifier: /^bash$|shell|exec|terminal|powershell/i.test(name) ? ('command' as const) : ('path' as const),
        wanted: inner,
      }
  // `npm test:*` is the prefix as Claude Code writes it; `//etc` begins at the root.
  const wanted = argument.wanted.replace(/:\*$/, '*').replace(/^\/\//, '/')
  const comparer = comparerOf(argument.modifier, [wanted])
  return { text, name: name.toLowerCase(), argument: { ...argument, wanted, comparer } }
}

/** Whether a call is one of this tool. `unknown`: the name matches, but what the tool acts on was not found. */
export function matchesTool(
  { name, argument }: ToolPattern,
  tool: string,
  args: Arguments,
  isComplete: boolean,
): Truth {
  if (!matchesGlob(name, tool.toLowerCase())) return false
  if (!argument) return true
  if (!isComplete) return 'unknown'
  const names = actsOn.find(([kind]) => kind === argument.modifier)![1]
  const values = names.map((each) => (Object.hasOwn(args, each) ? args[each] : undefined)).filter(isGiven)
  if (values.length === 0) return 'unknown'
  // A list of words, for example, beside a text: which of them the tool reads is not known.
  const truths = values.map((value) => (typeof value === 'string' ? argument.comparer.compare(value) : 'unknown'))
  return truths.includes(true) || (truths.includes('unknown') ? 'unknown' : false)
}

const isGiven = (value: unknown): boolean => value !== undefined && value !== null && value !== ''
