import type { EnforcementPoint, EnforcementTested } from '@wardline/contract'
import { safeJson, sanitize } from '@wardline/text'
import type { Command } from 'commander'
import { addEnforcementAdd } from './enforcement-add.ts'
import { Failure } from './exit.ts'
import { withService } from './service/options.ts'
import { findService } from './service/service.ts'
import type { ServiceFlags } from './service/settings.ts'
import { textTable } from './text-table.ts'

/** Formats the agents or tags for which an enforcement point is called. */
const scopeOf = ({ instances, tags }: EnforcementPoint): string =>
  instances ? `ids ${instances.join(' ')}` : tags ? `tags ${tags.join(' ')}` : 'all'

function rowOf(point: EnforcementPoint): string[] {
  const { name, host, health, actions, pending, failed, last_confirmed_at, last_error } = point
  const cells = [name, host, health, actions.join(' '), scopeOf(point), String(pending), String(failed)]
  return [...cells, last_confirmed_at ?? '-', last_error ?? ''].map(sanitize)
}

async function list(flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call('listEnforcementPoints', {})
  if (flags.json) return console.log(safeJson(reply, 2))
  if (reply.points.length === 0) return console.log('No enforcement point: WARDLINE_ENFORCEMENT_FILE is not set.')
  const head = ['Name', 'Host', 'Health', 'Actions', 'For', 'Pending', 'Failed', 'Last confirmed', 'Last error']
  console.log(textTable([head, ...reply.points.map(rowOf)]))
}

async function test(name: string, flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const tested: EnforcementTested = await call('testEnforcementPoint', { params: { name } })
  const { point, ok, status, error, duration_ms } = tested
  if (flags.json) console.log(safeJson(tested, 2))
  else if (ok) console.log(`${sanitize(point)} answered ${status} after ${duration_ms} ms`)
  if (!ok) throw new Failure(`${sanitize(point)} did not confirm: ${sanitize(error ?? '')}`, 'refused', 'failed')
}

export function addEnforcement(program: Command): void {
  const enforcement = program
    .command('enforcement')
    .description('add, show and test enforcement points, the webhooks that suspensions call')
  const listing = enforcement
    .command('list', { isDefault: true })
    .description('list enforcement points and their health')
  withService(listing).action(list)
  const testing = enforcement
    .command('test <point>')
    .description('call a point with action "test", which changes nothing')
  withService(testing).action(test)
  addEnforcementAdd(enforcement)
}
