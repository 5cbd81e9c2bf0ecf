import { type Command, InvalidArgumentError, Option } from 'commander'
import { serviceUrl } from './settings.ts'

export const address = (text: string): string => {
  try {
    return serviceUrl(text)
  } catch (fault) {
    throw new InvalidArgumentError(`It ${(fault as Error).message}.`)
  }
}

/** Adds the options of every command that uses a service. Call it after adding the command's own options. */
export function withService(command: Command): Command {
  return command
    .option('--json', 'print JSON, also for errors')
    .optionsGroup('Service:')
    .addOption(
      new Option('--url <url>', 'address of the service; default: WARDLINE_URL, else http://127.0.0.1:4747')
        .argParser(address)
        .conflicts('profile'),
    )
    .option('--profile <name>', 'profile with address and key (see: wardline profile); default: WARDLINE_PROFILE')
    .option('--key-file <file>', 'file with the key; default: WARDLINE_KEY or WARDLINE_KEY_FILE')
}

/** Parser of a repeatable option. */
export const repeated = (value: string, before: string[] = []): string[] => [...before, value]
