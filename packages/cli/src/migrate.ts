import { type CopyProgress, copyBetween, verifyAudit } from '@wardline/server'
import type { Command } from 'commander'
import { Failure } from './exit.ts'
import { startBar } from './progress-bar.ts'

interface Options {
  from: string
  to?: string
}

function targetOf({ to }: Options): string {
  const url = to ?? process.env.DATABASE_URL
  if (url) return url
  const rule =
    'Option --to <url> is required, or DATABASE_URL in the environment, which other users of this machine cannot read.'
  throw new Failure(rule, 'usage', 'usage')
}

async function migrate(options: Options): Promise<void> {
  const bar = startBar(process.stderr)
  const onProgress = ({ phase, table, rows, total }: CopyProgress) =>
    bar.advance(rows, total, `${phase === 'copy' ? 'Copying' : 'Comparing'} ${table}`)
  try {
    const counts = await copyBetween(options.from, targetOf(options), onProgress, async (copy) => {
      const result = await verifyAudit(copy)
      if (!result.ok) throw new Error(`The audit log of the copy is ${result.reason} at entry ${result.seq}.`)
    })
    bar.stop()
    for (const [table, rows] of Object.entries(counts)) if (rows > 0) console.log(`${table.padEnd(22)} ${rows}`)
    console.log('Every row was compared, and the audit log is intact.')
    console.log(
      'Start the service with DATABASE_URL set to the target and with the same WARDLINE_SECRET or secret file.',
    )
  } finally {
    bar.stop()
  }
}

export function addMigrate(program: Command): void {
  program
    .command('migrate')
    .description('copy a whole database into an empty one, such as SQLite into PostgreSQL; stop the service first')
    .requiredOption('--from <url>', 'sqlite:<file> or postgres://…')
    .option('--to <url>', 'postgres://… or sqlite:<file>; default: DATABASE_URL of the environment')
    .action(migrate)
}
