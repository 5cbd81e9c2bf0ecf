import { access } from '@wardline/contract'
import type { FastifyInstance } from 'fastify'
import { describeConfig } from './config/config.ts'
import { readTeam } from './db/teams.ts'
import type { Deps } from './deps.ts'
import { mountAlerts } from './features/alerts/routes.ts'
import { mountApprovals } from './features/approvals/routes.ts'
import { mountAudit } from './features/audit/routes.ts'
import { mountBrake } from './features/auto-suspension/routes.ts'
import { mountChain } from './features/chain/routes.ts'
import { mountCommandLogins } from './features/command-logins/routes.ts'
import { resumeCondition } from './features/containments/containments.ts'
import { mountContainments } from './features/containments/routes.ts'
import { mountKillSwitch } from './features/control/routes.ts'
import { createDashboardPages } from './features/dashboard/routes.ts'
import { mountDetection } from './features/detection/routes.ts'
import { mountDownloads } from './features/downloads/routes.ts'
import { mountDrills } from './features/drills/routes.ts'
import { mountEnforcement } from './features/enforcement/routes.ts'
import { mountEvents } from './features/events/routes.ts'
import { mountGateway } from './features/gateway/routes.ts'
import { mountHoneypots } from './features/honeypots/routes.ts'
import { mountIncidents } from './features/incidents/routes.ts'
import { mountFleet } from './features/instances/fleet-routes.ts'
import { mountInstances } from './features/instances/routes.ts'
import { keyNames } from './features/keys/key-names.ts'
import { listKeys } from './features/keys/keys.ts'
import { mountKeys } from './features/keys/routes.ts'
import { Sessions } from './features/keys/sessions.ts'
import { isPersonId } from './features/people/person-statements.ts'
import { mountPolicies } from './features/policies/routes.ts'
import { mountLists } from './features/rules/list-routes.ts'
import { mountRules } from './features/rules/routes.ts'
import { mountSearch } from './features/search/routes.ts'
import { mountPasskeys } from './features/sign-in/passkey-routes.ts'
import { mountSignIn } from './features/sign-in/routes.ts'
import { mountStatus } from './features/status/routes.ts'
import { mountStream } from './features/stream/routes.ts'
import { mountSuspensions } from './features/suspensions/routes.ts'
import { mountSystem } from './features/system/routes.ts'
import { mountTelemetry } from './features/telemetry/routes.ts'
import { mountTrust } from './features/trust/routes.ts'
import { mountViews } from './features/views/routes.ts'
import { viewMismatches } from './features/witnesses/mismatch-watch.ts'
import type { Authenticator } from './http/auth.ts'
import { openDirectRoutes } from './http/direct.ts'
import { createHostCheck } from './http/host-check.ts'
import { mountOperations } from './http/operations.ts'
import { createReadiness } from './http/readiness.ts'
import { mountReference } from './http/reference.ts'
import { createRouter } from './http/route.ts'
import { createServer } from './http/server.ts'
import type { Services } from './services.ts'

/** Creates the HTTP app with the routes of all features. */
export async function createApp(deps: Deps, services: Services): Promise<FastifyInstance> {
  const { keyring } = services
  const { people, passkeys } = services
  const holders = (id: string) => (isPersonId(id) ? people : passkeys)
  const sessions = new Sessions(deps, {
    findById: (id) => holders(id).findById(id),
    findStoredById: (id) => holders(id).findStoredById(id),
  })
  const authenticator: Authenticator = {
    byKey: (presented) => keyring.find(presented, false),
    byStoredKey: async (presented, mayAsk) => (mayAsk ? keyring.findStored(presented) : keyring.find(presented)),
    bySession: (proof) => sessions.bySession(proof),
    byAccess: (presented) => sessions.byAccess(presented),
    knownSession: (token) => sessions.knownSession(token),
  }
  const assertHost = createHostCheck(deps.config)
  const dashboard = createDashboardPages(deps.config)
  const app = createServer(deps, { assertHost, answerUnknown: dashboard.answerUnknown })
  const hasProxies = deps.config.trustedProxies !== undefined
  const { suspendedVersion } = services
  const directRoutes = openDirectRoutes(app, { authenticator, assertHost, hasProxies, suspendedVersion })
  mountReference(app, deps)
  const router = createRouter(app, {
    authenticator,
    watch: services.probing,
    metrics: deps.metrics,
    directRoutes,
    suspendedVersion,
    isOfTeam: async (team, id) => (await readTeam(deps.database.db, team, [id])).has(id),
    openStream: (keyId) => services.quotas.openStream(keyId),
    configured: {
      stream: deps.config.streamAuth === 'none' ? 'open' : access.readers,
      metrics: deps.config.metricsAuth === 'none' ? 'open' : access.readers,
    },
  })
  const readiness = createReadiness(deps)
  mountOperations(router, deps, { readiness })
  const reaches = services.decoyChecks.reaches
  mountInstances(router, deps, { ...services, reaches, readMismatches: (id) => viewMismatches(deps, id) })
  mountFleet(router, services)
  mountEvents(router, deps, services)
  mountTelemetry(router, services)
  mountDetection(router, services)
  mountKillSwitch(router, deps, {
    ...services,
    reaches,
    resumeCondition: (id, asking) => resumeCondition(deps, id, asking),
  })
  mountContainments(router, deps, services)
  mountDrills(router, deps, services)
  mountSuspensions(router, deps, { ...services, keyNames })
  mountEnforcement(router, deps, services)
  mountGateway(router, services)
  mountBrake(router, deps, services)
  mountApprovals(router, deps, services)
  mountRules(router, deps, services)
  mountPolicies(router, deps, services)
  mountLists(router, deps, services)
  mountStatus(router, deps, services)
  mountStream(router, services)
  mountHoneypots(router, deps, services)
  mountAlerts(router, deps, services)
  mountTrust(router, deps, { app })
  mountChain(router, services)
  const watch = services.probing
  const prepareLogout = services.providerLogout.prepare
  mountKeys(router, deps, { ...services, sessions, watch, prepareLogout })
  mountSignIn(router, deps, { ...services, sessions })
  mountCommandLogins(router, deps, { ...services, sessions, watch })
  mountPasskeys(router, deps, { ...services, sessions })
  mountAudit(router, deps, { ...services, keyNames })
  mountIncidents(router, deps, { ...services, keyNames, listKeys })
  mountViews(router, deps)
  const configuration = describeConfig(deps.config)
  mountSearch(router, services)
  mountSystem(router, deps, { ...services, readiness, configuration })
  mountDownloads(router, deps)
  dashboard.mount(app)
  return app
}
