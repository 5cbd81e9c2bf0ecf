import type { Command, Option } from 'commander'

export interface CompletionOption {
  /** With its dashes. */
  name: string
  description: string
  takesValue: boolean
  choices: readonly string[]
}

/** One command with what may follow it. */
export interface CompletionNode {
  /** Words after `wardline`, in one string; empty for `wardline` itself. */
  path: string
  description: string
  commands: { name: string; description: string }[]
  options: CompletionOption[]
}

const optionOf = ({ long, description, required, optional, argChoices, hidden }: Option): CompletionOption[] =>
  long && !hidden ? [{ name: long, description, takesValue: required || optional, choices: argChoices ?? [] }] : []

const help: CompletionOption = { name: '--help', description: 'display help', takesValue: false, choices: [] }

/** The whole command line, the command itself first. */
export function completionTree(command: Command, path: string[] = []): CompletionNode[] {
  const node: CompletionNode = {
    path: path.join(' '),
    description: command.description(),
    commands: command.commands.map((child) => ({ name: child.name(), description: child.description() })),
    options: [...command.options.flatMap(optionOf), help],
  }
  return [node, ...command.commands.flatMap((child) => completionTree(child, [...path, child.name()]))]
}
