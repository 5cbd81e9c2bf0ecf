import { Command, CommanderError, type HelpContext } from 'commander'
import { version } from './version.ts'

/** Removes credentials from addresses, so that no error prints a password. */
const invalid = (given: string, rule: string): string =>
  `${given.replace(/:\/\/[^\s/]*@/g, '://…@')} is invalid: ${rule.toLowerCase()}`

/** Rewrites an error of commander to the form of all other errors: one sentence without a prefix. */
function usageSentence(message: string, code: string | undefined): string {
  const subject = /'(.+?)'/.exec(message)?.[1] ?? ''
  switch (code) {
    case 'commander.missingMandatoryOptionValue':
      return `Option ${subject} is required.`
    case 'commander.optionMissingArgument':
      return `Option ${subject} needs a value.`
    case 'commander.missingArgument':
      return `Argument <${subject}> is missing.`
  }
  const text = message
    .replace(/^error: /, '')
    .replace(/^option '(-[^ ']*)[^']*' argument '(.*)' is invalid\. (.)/s, (_all, option, value, rule) =>
      invalid(`${option} ${value}`, rule),
    )
    .replace(/^command-argument value '(.*)' is invalid for argument '(.*?)'\. (.)/s, (_all, value, name, rule) =>
      invalid(`<${name}> ${value}`, rule),
    )
    .replaceAll('\n', ' ')
  return `${text.charAt(0).toUpperCase()}${text.slice(1).replace(/[^.)]$/, '$&.')}`
}

/** Invalid command line. `command` is the command whose usage is shown. */
export class UsageError extends CommanderError {
  readonly command: Command

  constructor(command: Command, message: string) {
    super(64, 'usage', message)
    this.command = command
  }
}

const commandNames = (command: Command): string =>
  command.commands
    .map((child) => child.name())
    .filter((name) => name !== 'help')
    .join(', ')

/** Only a subclass lets each subcommand report its errors without printing its help. */
class QuietCommand extends Command {
  override createCommand(name?: string): Command {
    return new QuietCommand(name)
  }

  override error(message: string, options?: { code?: string }): never {
    const { parent } = this
    // Commander passes an unknown subcommand to the default command as an argument.
    if (options?.code === 'commander.excessArguments' && parent?.parent && parent.args[0] !== this.name()) {
      const sentence = `Unknown command '${parent.args[0]}' of wardline ${parent.name()}; its commands are ${commandNames(parent)}.`
      throw new UsageError(parent, sentence)
    }
    throw new UsageError(this, usageSentence(message, options?.code))
  }

  /** Commander also calls this if a subcommand is missing. */
  override help(context?: HelpContext | ((text: string) => string)): never {
    const isAsked = typeof context !== 'object' || !context.error
    // `wardline` without a command prints the help.
    if (isAsked || !this.parent) return super.help()
    throw new UsageError(this, `Command missing; the commands of wardline ${this.name()} are ${commandNames(this)}.`)
  }
}

/** Creates the command `wardline` without subcommands. They inherit its settings. */
export function createRoot(): Command {
  return new QuietCommand('wardline')
    .description('Security monitor for fleets of AI agents')
    .version(version)
    .exitOverride()
}

/** Returns the usage of a command and the command for its help. */
export function usageLines(command: Command): string[] {
  const usage = command.createHelp().commandUsage(command)
  return [`Usage: ${usage}`, `See: ${usage.split(' [')[0]!.split(' <')[0]} --help`]
}
