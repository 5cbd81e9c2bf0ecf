import type { CompletionNode } from './completion-tree.ts'

// Each script finds the longest command among the words before the cursor, then offers what may follow it: commands
// and options, or the choices of the option before. Where nothing is known the shell offers file names.

const words = ({ commands, options }: CompletionNode): string =>
  [...commands.map(({ name }) => name), ...options.map(({ name }) => name)].join(' ')

const commandPaths = (tree: readonly CompletionNode[]): string[] =>
  tree.flatMap(({ path }) => (path === '' ? [] : [path]))

const optionsWithValue = (tree: readonly CompletionNode[]) =>
  tree.flatMap(({ path, options }) =>
    options.filter(({ takesValue }) => takesValue).map(({ name, choices }) => ({ place: `${path} ${name}`, choices })),
  )

function bash(tree: readonly CompletionNode[]): string {
  const values = optionsWithValue(tree).map(
    ({ place, choices }) =>
      `    '${place}') COMPREPLY=(${choices.length > 0 ? `$(compgen -W '${choices.join(' ')}' -- "$current")` : ''}); return;;`,
  )
  const offers = tree.map((node) => `    '${node.path}') COMPREPLY=($(compgen -W '${words(node)}' -- "$current"));;`)
  return `# bash completion for wardline: source <(wardline completion bash)
_wardline() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD - 1]}" command='' word
  COMPREPLY=()
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD - 1}"; do
    case "\${command:+$command }$word" in
    ${commandPaths(tree)
      .map((path) => `'${path}'`)
      .join('|')}) command="\${command:+$command }$word";;
    esac
  done
  case "$command $previous" in
${values.join('\n')}
  esac
  case "$command" in
${offers.join('\n')}
  esac
}
complete -o default -F _wardline wardline
`
}

function zsh(tree: readonly CompletionNode[]): string {
  const values = optionsWithValue(tree).map(
    ({ place, choices }) =>
      `    ('${place}') ${choices.length > 0 ? `compadd -- ${choices.join(' ')}` : '_files'}; return;;`,
  )
  const offers = tree.map((node) => `    ('${node.path}') compadd -- ${words(node)};;`)
  return `#compdef wardline
# zsh completion for wardline: source <(wardline completion zsh)
_wardline() {
  local at='' word
  for word in "\${(@)words[2,CURRENT-1]}"; do
    case "\${at:+$at }$word" in
    (${commandPaths(tree)
      .map((path) => `'${path}'`)
      .join('|')}) at="\${at:+$at }$word";;
    esac
  done
  case "$at \${words[CURRENT-1]}" in
${values.join('\n')}
  esac
  case "$at" in
${offers.join('\n')}
  esac
}
compdef _wardline wardline
`
}

const quoted = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`

/** A line offers one word where the command before it is exactly this one. */
function fish(tree: readonly CompletionNode[]): string {
  const lines = tree.flatMap(({ path, commands, options }) => {
    const here = `complete -c wardline -n ${quoted(`__wardline_at "${path}"`)}`
    return [
      ...commands.map(({ name, description }) => `${here} -f -a ${name} -d ${quoted(description)}`),
      ...options.map(({ name, description, takesValue, choices }) => {
        const value = choices.length > 0 ? ` -x -a ${quoted(choices.join(' '))}` : takesValue ? ' -r' : ' -f'
        return `${here} -l ${name.slice(2)}${value} -d ${quoted(description)}`
      }),
    ]
  })
  return `# fish completion for wardline: wardline completion fish | source
function __wardline_at
  set -l at ''
  for word in (commandline -opc)[2..-1]
    set -l longer (string trim "$at $word")
    contains -- "$longer" ${commandPaths(tree).map(quoted).join(' ')}; and set at "$longer"
  end
  test "$at" = "$argv[1]"
end
${lines.join('\n')}
`
}

export const completionScripts = { bash, zsh, fish } satisfies Record<
  string,
  (tree: readonly CompletionNode[]) => string
>
export type Shell = keyof typeof completionScripts
export const shells = Object.keys(completionScripts) as Shell[]
