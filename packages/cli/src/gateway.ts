import type { BudgetView } from '@wardline/contract'
import { readConfig, startGateway } from '@wardline/server'
import { safeJson, sanitize } from '@wardline/text'
import type { Command } from 'commander'
import { withService } from './service/options.ts'
import { findService } from './service/service.ts'
import type { ServiceFlags } from './service/settings.ts'
import { closeOnSignal, onFatal } from './signals.ts'
import { textTable } from './text-table.ts'

const useText = ({ limit, used, reserved }: BudgetView['usd']): string =>
  `${used}${limit === null ? '' : ` of ${limit}`}${reserved > 0 ? ` (+${reserved} reserved)` : ''}`

async function showBudgets(flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const { budgets } = await call('listBudgets', {})
  if (flags.json) return console.log(safeJson({ budgets }, 2))
  if (budgets.length === 0) return console.log('No use of budgets today.')
  const rows = budgets.map((budget) => [
    sanitize(budget.name),
    sanitize(budget.instance_id ?? ''),
    useText(budget.tokens),
    useText(budget.usd),
    budget.refused_at ? `refused since ${budget.refused_at}` : budget.warned_at ? `warned at ${budget.warned_at}` : '',
  ])
  console.log(textTable([['Budget', 'Agent', 'Tokens', 'USD', ''], ...rows]))
  console.log(`They renew at ${budgets[0]!.renews_at}.`)
}

async function runGateway(): Promise<void> {
  const gateway = await startGateway(readConfig(), { onFatal })
  closeOnSignal(() => gateway.close())
}

export function addGateway(program: Command): void {
  const gateway = program
    .command('gateway')
    .description('run the model gateway as a separate process, on the PostgreSQL database of a service')
    .action(runGateway)
  const budgets = gateway.command('budgets').description('list what agents used of their budgets today, in UTC')
  withService(budgets).action(showBudgets)
}
