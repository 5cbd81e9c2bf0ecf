import { Argument, type Command, type Option } from 'commander'

interface CompletionOption {
  /** Including the dashes. */
  name: string
  description: string
  takesValue: boolean
  choices: readonly string[]
}

/** A command with its subcommands and options. */
interface CompletionNode {
  /** Words after `wardline`, in one string; empty for `wardline` itself. */
  path: string
  description: string
  commands: { name: string; description: string }[]
  options: CompletionOption[]
}

const optionOf = ({ long, description, required, optional, argChoices, hidden }: Option): CompletionOption[] =>
  long && !hidden ? [{ name: long, description, takesValue: required || optional, choices: argChoices ?? [] }] : []

const help: CompletionOption = { name: '--help', description: 'display help', takesValue: false, choices: [] }

/** Flattens the command tree, parents first. */
export function completionTree(command: Command, path: string[] = []): CompletionNode[] {
  const node: CompletionNode = {
    path: path.join(' '),
    description: command.description(),
    commands: command.commands.map((child) => ({ name: child.name(), description: child.description() })),
    options: [...command.options.flatMap(optionOf), help],
  }
  return [node, ...command.commands.flatMap((child) => completionTree(child, [...path, child.name()]))]
}

// Each script finds the longest command in the words before the cursor, then offers its subcommands and options, or the
// choices of the preceding option. Otherwise the shell completes file names.

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

/** Each line offers one word after exactly one command. */
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
type Shell = keyof typeof completionScripts
const shells = Object.keys(completionScripts) as Shell[]

/** Must be added last, because it describes the commands that exist when it runs. */
export function addCompletion(program: Command): void {
  program
    .command('completion')
    .description('print a script for tab completion. Enable it: source <(wardline completion bash)')
    .addArgument(new Argument('<shell>', 'shell').choices(shells))
    .action((shell: Shell) => {
      process.stdout.write(completionScripts[shell](completionTree(program)))
    })
}
