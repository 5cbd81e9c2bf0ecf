import type { EndpointName } from '@wardline/contract'
import type { Deps } from '../../deps.ts'
import { requestActor } from '../../http/actor.ts'
import type { Input, Router } from '../../http/route.ts'
import type { ProtectionAlerts } from '../audit/protection.ts'
import { changeEntries, deleteList, listLists, putList, viewList } from './lists.ts'
import type { RuleRunner } from './runner.ts'

export function mountLists(
  router: Router,
  { database, clock }: Pick<Deps, 'database' | 'clock'>,
  {
    ruleRunner,
    protectionAlerts: protection,
  }: { ruleRunner: Pick<RuleRunner, 'learn'>; protectionAlerts: ProtectionAlerts },
): void {
  const changing = ({ request }: Pick<Input<EndpointName>, 'request'>) => ({
    database,
    protection,
    actor: requestActor(request),
    now: clock.now(),
  })

  /** Rules have the new entries from the first event after the answer on. */
  async function changed<Result>(change: Promise<Result>): Promise<Result> {
    const result = await change
    await ruleRunner.learn()
    return result
  }

  router.handle('listLists', ({ principal }) => database.scan(principal.keyId, listLists))

  router.handle('getList', ({ params, principal }) => database.scan(principal.keyId, (db) => viewList(db, params.name)))

  router.handle('putList', (input) => changed(putList(changing(input), input.params.name, input.body)))

  router.handle('changeListEntries', (input) => changed(changeEntries(changing(input), input.params.name, input.body)))

  router.handle('deleteList', async (input) => {
    await deleteList(changing(input), input.params.name)
    return { ok: true } as const
  })
}
