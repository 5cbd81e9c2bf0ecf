import { type Command, InvalidArgumentError, Option } from 'commander'
import { serviceUrl } from './service-settings.ts'

export const address = (text: string): string => {
  try {
    return serviceUrl(text)
  } catch (fault) {
    throw new InvalidArgumentError(`It ${(fault as Error).message}.`)
  }
}

/** Adds what every command that asks a service takes; called after the command's own options. */
export function withService(command: Command): Command {
  return command
    .option('--json', 'as JSON, faults too')
    .optionsGroup('Service:')
    .addOption(
      new Option('--url <url>', 'address, else WARDLINE_URL, else http://127.0.0.1:4747')
        .argParser(address)
        .conflicts('profile'),
    )
    .option('--profile <name>', 'address and key by a name (see: wardline profile), else WARDLINE_PROFILE')
    .option('--key-file <file>', 'file that holds the key, else WARDLINE_KEY or WARDLINE_KEY_FILE')
}
