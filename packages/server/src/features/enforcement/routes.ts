import type { Deps } from '../../deps.ts'
import { unknownId } from '../../errors.ts'
import type { Router } from '../../http/route.ts'
import type { Enforcement } from './enforcement.ts'
import { listPoints } from './views.ts'

export function mountEnforcement(
  router: Router,
  { database }: Deps,
  { enforcement }: { enforcement: Enforcement },
): void {
  router.handle('listEnforcementPoints', ({ principal }) =>
    database.scan(principal.keyId, (db) => listPoints(db, enforcement.points)),
  )
  router.handle('testEnforcementPoint', ({ params }) => {
    const point = enforcement.points.find(({ name }) => name === params.name)
    if (!point) throw unknownId('enforcement point', params.name, 'wardline enforcement')
    return enforcement.test(point)
  })
}
