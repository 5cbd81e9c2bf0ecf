import { describeConfig, readConfig } from '@wardline/server'
import type { Command } from 'commander'

export function addConfig(program: Command): void {
  program
    .command('config')
    .description('print the effective configuration, without secrets')
    .option('--json', 'print JSON')
    .action(({ json }: { json?: boolean }) => {
      const shown = Object.fromEntries(
        describeConfig(readConfig()).map(({ name, value, is_secret }) => [
          name,
          value === null ? '(unset)' : is_secret ? '(set)' : value,
        ]),
      )
      if (json) console.log(JSON.stringify(shown, null, 2))
      else for (const [name, value] of Object.entries(shown)) console.log(`${name}=${value}`)
    })
}
