import { describeConfig, readConfig } from '@wardline/server'
import type { Command } from 'commander'

export function addConfig(program: Command): void {
  program
    .command('config')
    .description('print the effective configuration, without secrets')
    .option('--json', 'print JSON')
    .action(({ json }: { json?: boolean }) => {
      const shown = describeConfig(readConfig())
      if (json) console.log(JSON.stringify(shown, null, 2))
      else for (const [name, value] of Object.entries(shown)) console.log(`${name}=${value}`)
    })
}
