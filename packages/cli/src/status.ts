import { type FleetStatus, severities } from '@wardline/contract'
import { counted, safeJson, sanitize } from '@wardline/text'
import type { Command } from 'commander'
import { severityText, statusText } from './events/event-text.ts'
import { withService } from './service/options.ts'
import { findService } from './service/service.ts'
import type { ServiceFlags } from './service/settings.ts'

/** Maximum suspended agents that are listed by name; the others are counted. */
const maxNamed = 10

function statusLines({ instances, instances_omitted: omitted = 0, stats, toolCalls }: FleetStatus): string[] {
  const count = (status: string) => instances.filter((instance) => instance.status === status).length
  const suspended = instances.filter(({ status }) => status === 'suspended')
  const tools = Object.entries(toolCalls).filter(([, calls]) => calls > 0)
  const calls = tools.reduce((sum, [, number]) => sum + number, 0)
  const byTool = tools.map(([name, number]) => `${sanitize(name)} ${number}`).join(', ')
  return [
    `Fleet       ${counted(instances.length + omitted, 'agent')}${omitted > 0 ? `; of the ${instances.length} shown` : ''}: ${count('active')} active, ${count('suspended')} suspended, ${count('offline')} offline`,
    `Last 24 h   ${severities
      .toReversed()
      .map((severity) => `${stats[severity]} ${stats[severity] > 0 ? severityText(severity) : severity}`)
      .join(', ')}`,
    `Tool calls  ${calls} in the last hour${byTool ? `: ${byTool}` : ''}`,
    ...suspended
      .slice(0, maxNamed)
      .map(({ id, suspension_reason }) =>
        [statusText('suspended', 10), id, suspension_reason ?? ''].join('  ').trimEnd(),
      ),
    ...(suspended.length > maxNamed ? [`            and ${suspended.length - maxNamed} more suspended`] : []),
  ]
}

async function status(flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const fleet = await call('getStatus', {})
  if (flags.json) console.log(safeJson(fleet, 2))
  else for (const line of statusLines(fleet)) console.log(line)
}

export function addStatus(program: Command): void {
  withService(program.command('status').description('show a summary of the fleet')).action(status)
}
