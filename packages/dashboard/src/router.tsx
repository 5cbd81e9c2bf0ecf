import type { QueryClient } from '@tanstack/react-query'
import {
  type AnyRoute,
  createRootRouteWithContext,
  createRoute,
  createRouter,
  lazyRouteComponent,
  redirect,
} from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { agentSearch } from './agent/search.ts'
import { alertSearch } from './alerts/search.ts'
import { approvalsSearch } from './approvals/search.ts'
import { auditSearch } from './audit/search.ts'
import { connectSearch } from './connect/search.ts'
import { containmentsSearch } from './containments/search.ts'
import { isSignedOut } from './data/client.ts'
import { searchParams } from './data/search-params.ts'
import { sessionQuery } from './data/session.ts'
import { decoySearch } from './decoys/search.ts'
import { eventSearch } from './events/search.ts'
import { fleetSearch } from './fleet/search.ts'
import { incidentSearch } from './incidents/search.ts'
import { keySearch } from './keys/search.ts'
import { listSearch, listsSearch } from './lists/search.ts'
import { commandLoginSearch, loginSearch } from './login/search.ts'
import { overviewSearch } from './overview/search.ts'
import { peopleSearch } from './people/search.ts'
import { policiesSearch, policySearch } from './policies/search.ts'
import { newRuleSearch, ruleSearch, rulesSearch } from './rules/search.ts'
import { settingsSearch } from './settings/search.ts'
import { FaultPage, UnknownPage } from './shell/other-pages.tsx'
import { Shell } from './shell/shell.tsx'

const root = createRootRouteWithContext<{ client: QueryClient }>()({
  notFoundComponent: UnknownPage,
  errorComponent: FaultPage,
})

interface Entering {
  context: { client: QueryClient }
  location: { href: string }
}
async function askToSignIn({ context: { client }, location }: Entering): Promise<void> {
  try {
    await client.ensureQueryData(sessionQuery)
  } catch (fault) {
    if (isSignedOut(fault))
      throw redirect({ to: '/login', search: { to: location.href === '/' ? undefined : location.href } })
    throw fault
  }
}

/** Parent of the screens that require sign-in, in the frame. */
const inside = createRoute({ getParentRoute: () => root, id: 'inside', component: Shell, beforeLoad: askToSignIn })

/** Parent of the wallboard. It has no frame, because nothing on it is clicked. */
const frameless = createRoute({ getParentRoute: () => root, id: 'frameless', beforeLoad: askToSignIn })

/** A screen whose code is loaded when it opens. */
const screenIn = <Parent extends AnyRoute, Path extends string, Search extends ReturnType<typeof searchParams>>(
  parent: Parent,
  path: Path,
  validateSearch: Search,
  load: () => Promise<() => ReactNode>,
) =>
  createRoute({
    getParentRoute: () => parent,
    path,
    validateSearch,
    component: lazyRouteComponent(async () => ({ default: await load() })),
  })

const noSearch = searchParams({})

const publicScreens = [
  screenIn(root, '/login', loginSearch, async () => (await import('./login/login.tsx')).Login),
  screenIn(root, '/auth/login', loginSearch, async () => (await import('./login/provider-sign-in.tsx')).StartSignIn),
  screenIn(root, '/auth/callback', noSearch, async () => (await import('./login/provider-sign-in.tsx')).FinishSignIn),
  screenIn(
    root,
    '/auth/cli',
    commandLoginSearch,
    async () => (await import('./login/command-login.tsx')).CommandLoginPage,
  ),
  screenIn(root, '/trust', noSearch, async () => (await import('./trust/trust.tsx')).Trust),
] as const

const wallboard = screenIn(
  frameless,
  '/wallboard',
  noSearch,
  async () => (await import('./wallboard/wallboard.tsx')).Wallboard,
)

const screens = [
  screenIn(inside, '/', overviewSearch, async () => (await import('./overview/overview.tsx')).Overview),
  screenIn(inside, '/fleet', fleetSearch, async () => (await import('./fleet/fleet.tsx')).Fleet),
  screenIn(inside, '/fleet/$id', agentSearch, async () => (await import('./agent/agent.tsx')).AgentPage),
  screenIn(
    inside,
    '/containments',
    containmentsSearch,
    async () => (await import('./containments/containments.tsx')).Containments,
  ),
  screenIn(
    inside,
    '/containments/$id',
    noSearch,
    async () => (await import('./containments/containment.tsx')).ContainmentPage,
  ),
  screenIn(inside, '/events', eventSearch, async () => (await import('./events/events.tsx')).Events),
  screenIn(inside, '/decoys', decoySearch, async () => (await import('./decoys/decoys.tsx')).Decoys),
  screenIn(inside, '/rules', rulesSearch, async () => (await import('./rules/rules.tsx')).Rules),
  screenIn(inside, '/rules/new', newRuleSearch, async () => (await import('./rules/new-rule.tsx')).NewRule),
  screenIn(inside, '/rules/coverage', noSearch, async () => (await import('./rules/coverage.tsx')).Coverage),
  screenIn(inside, '/rules/lists', listsSearch, async () => (await import('./lists/lists.tsx')).Lists),
  screenIn(inside, '/rules/lists/$name', listSearch, async () => (await import('./lists/list.tsx')).ListPage),
  screenIn(inside, '/rules/$id', ruleSearch, async () => (await import('./rules/rule.tsx')).RulePage),
  screenIn(inside, '/policies', policiesSearch, async () => (await import('./policies/policies.tsx')).Policies),
  screenIn(inside, '/policies/new', noSearch, async () => (await import('./policies/new-policy.tsx')).NewPolicy),
  screenIn(inside, '/policies/$id', policySearch, async () => (await import('./policies/policy.tsx')).PolicyPage),
  screenIn(inside, '/approvals', approvalsSearch, async () => (await import('./approvals/approvals.tsx')).Approvals),
  screenIn(inside, '/approvals/$id', noSearch, async () => (await import('./approvals/approval.tsx')).ApprovalPage),
  screenIn(inside, '/alerts', alertSearch, async () => (await import('./alerts/alerts.tsx')).Alerts),
  screenIn(inside, '/incidents', incidentSearch, async () => (await import('./incidents/incidents.tsx')).Incidents),
  screenIn(inside, '/audit', auditSearch, async () => (await import('./audit/audit.tsx')).Audit),
  screenIn(inside, '/keys', keySearch, async () => (await import('./keys/keys.tsx')).Keys),
  screenIn(inside, '/people', peopleSearch, async () => (await import('./people/people.tsx')).People),
  screenIn(inside, '/account', noSearch, async () => (await import('./account/account.tsx')).Account),
  screenIn(inside, '/connect', connectSearch, async () => (await import('./connect/connect.tsx')).Connect),
  screenIn(inside, '/settings', settingsSearch, async () => (await import('./settings/settings.tsx')).Settings),
] as const

/** Some type the singular. */
const policyPath = createRoute({
  getParentRoute: () => inside,
  path: '/policy',
  beforeLoad: () => {
    throw redirect({ to: '/policies' })
  },
})

const routeTree = root.addChildren([
  ...publicScreens,
  frameless.addChildren([wallboard]),
  inside.addChildren([...screens, policyPath]),
])

export function createDashboardRouter(client: QueryClient) {
  return createRouter({ routeTree, context: { client }, defaultPreload: 'intent', defaultPendingMs: 300 })
}

declare module '@tanstack/react-router' {
  interface Register {
    router: ReturnType<typeof createDashboardRouter>
  }
}
