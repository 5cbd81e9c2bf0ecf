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
  ['path', ['file_path', 'filePath', 'notebook_path', 'path', 'filename', 'file']],
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

/**
 * Whether a call is one of these tools; of no tools: of any. `unknown`: a name matches, but what the tool acts on was not
 * found. With `isForEach`, as a rule that allows needs it, each command of a line has to match one of the patterns.
 */
export function matchesTools(
  patterns: readonly ToolPattern[],
  { tool, args, isComplete }: { tool: string; args: Arguments; isComplete: boolean },
  isForEach: boolean,
): Truth {
  const name = tool.toLowerCase()
  const named = patterns.filter((pattern) => matchesGlob(pattern.name, name))
  if (patterns.length === 0 || named.some(({ argument }) => argument === undefined)) return true
  let truth: Truth = false
  for (const [modifier, names] of actsOn) {
    const meant = named.flatMap(({ argument }) => (argument?.modifier === modifier ? [argument] : []))
    if (meant.length === 0) continue
    const comparers =
      isForEach && meant.length > 1
        ? [
            comparerOf(
              modifier,
              meant.map(({ wanted }) => wanted),
            ),
          ]
        : meant.map(({ comparer }) => comparer)
    const values = names.map((each) => (Object.hasOwn(args, each) ? args[each] : undefined)).filter(isGiven)
    // A list of words, for example, beside a text: which of them the tool reads is not known.
    const truths = values.flatMap((value) =>
      comparers.map(({ compare }) => (typeof value === 'string' ? compare(value, isForEach) : 'unknown')),
    )
    const one = isComplete ? together(truths, isForEach) : 'unknown'
    if (one === true) return true
    if (one === 'unknown') truth = 'unknown'
  }
  return truth
}

function together(truths: readonly Truth[], isForEach: boolean): Truth {
  if (truths.length === 0) return 'unknown'
  if (truths.includes(!isForEach)) return !isForEach
  return truths.includes('unknown') ? 'unknown' : isForEach
}

const isGiven = (value: unknown): boolean => value !== undefined && value !== null && value !== ''
