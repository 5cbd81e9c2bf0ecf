import { endpoints } from '@wardline/contract'
import type { Deps } from '../../deps.ts'
import { requestActor } from '../../http/actor.ts'
import type { Router } from '../../http/route.ts'
import { type IncidentParts, Incidents, scopeOf } from './incidents.ts'

export function mountIncidents(router: Router, deps: Deps, parts: IncidentParts): void {
  const { clock } = deps
  const incidents = new Incidents(deps, parts)

  router.handle('exportIncident', async ({ query, request }, reply) => {
    const now = clock.now()
    const archive = await incidents.export({ scope: scopeOf(query), actor: requestActor(request), now })
    // If the client disconnected during the preparation, the stream would never end and the key could not export again.
    if (request.raw.socket.destroyed) archive.destroy()
    const day = new Date(now).toISOString().slice(0, 10)
    reply.header('content-disposition', `attachment; filename="incident-${query.instance_id}-${day}.tar.gz"`)
    reply.type(endpoints.exportIncident.file.contentType)
    return archive as never
  })

  router.handle('previewIncident', ({ query, principal }) =>
    incidents.preview(scopeOf(query), principal.keyId, clock.now()),
  )
}
