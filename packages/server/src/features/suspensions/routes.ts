import type { Deps } from '../../deps.ts'
import type { Router } from '../../http/route.ts'
import type { KeyNames } from '../audit/audit.ts'
import type { Enforcement } from '../enforcement/enforcement.ts'
import { settingsOf } from './states.ts'
import { listSuspensions, viewFigures } from './suspensions.ts'

export function mountSuspensions(
  router: Router,
  { database, clock, config }: Deps,
  parts: { keyNames: KeyNames; enforcement: Pick<Enforcement, 'points'> },
): void {
  router.handle('listSuspensions', ({ params, principal }) =>
    database.scan(principal.keyId, (db) => listSuspensions(db, params.instanceId, parts)),
  )

  router.handle('getSuspensionCounts', ({ principal }) =>
    database.scan(principal.keyId, (db) =>
      viewFigures(db, clock.now(), { ...parts, settings: settingsOf(config), team: principal.team }),
    ),
  )
}
