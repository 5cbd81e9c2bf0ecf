import type { QueryClient } from '@tanstack/react-query'
import {
  createRootRouteWithContext,
  createRoute,
  createRouter,
  lazyRouteComponent,
  redirect,
} from '@tanstack/react-router'
import { agentSearch } from './agent/search.ts'
import { alertSearch } from './alerts/search.ts'
import { auditSearch } from './audit/search.ts'
import { connectSearch } from './connect/search.ts'
import { containmentsSearch } from './containments/search.ts'
import { isSignedOut } from './data/client.ts'
import { sessionQuery } from './data/session.ts'
import { decoySearch } from './decoys/search.ts'
import { eventSearch } from './events/search.ts'
import { fleetSearch } from './fleet/search.ts'
import { incidentSearch } from './incidents/search.ts'
import { keySearch } from './keys/search.ts'
import { loginSearch } from './login/search.ts'
import { overviewSearch } from './overview/search.ts'
import { ruleSearch, rulesSearch } from './rules/search.ts'
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

const atRoot = { getParentRoute: () => root }

/** Public screens. */
const outside = [
  createRoute({
    ...atRoot,
    path: '/login',
    validateSearch: loginSearch,
    component: lazyRouteComponent(() => import('./login/login.tsx'), 'Login'),
  }),
  createRoute({
    ...atRoot,
    path: '/trust',
    component: lazyRouteComponent(() => import('./trust/trust.tsx'), 'Trust'),
  }),
  // Without a frame, because nothing on it is clicked.
  createRoute({
    ...atRoot,
    path: '/wallboard',
    beforeLoad: askToSignIn,
    component: lazyRouteComponent(() => import('./wallboard/wallboard.tsx'), 'Wallboard'),
  }),
] as const

/** Parent of the screens that require sign-in. */
const inside = createRoute({ ...atRoot, id: 'inside', component: Shell, beforeLoad: askToSignIn })
const atInside = { getParentRoute: () => inside }

const screens = [
  createRoute({
    ...atInside,
    path: '/',
    validateSearch: overviewSearch,
    component: lazyRouteComponent(() => import('./overview/overview.tsx'), 'Overview'),
  }),
  createRoute({
    ...atInside,
    path: '/fleet',
    validateSearch: fleetSearch,
    component: lazyRouteComponent(() => import('./fleet/fleet.tsx'), 'Fleet'),
  }),
  createRoute({
    ...atInside,
    path: '/fleet/$id',
    validateSearch: agentSearch,
    component: lazyRouteComponent(() => import('./agent/agent.tsx'), 'AgentPage'),
  }),
  createRoute({
    ...atInside,
    path: '/containments',
    validateSearch: containmentsSearch,
    component: lazyRouteComponent(() => import('./containments/containments.tsx'), 'Containments'),
  }),
  createRoute({
    ...atInside,
    path: '/containments/$id',
    component: lazyRouteComponent(() => import('./containments/containment.tsx'), 'ContainmentPage'),
  }),
  createRoute({
    ...atInside,
    path: '/events',
    validateSearch: eventSearch,
    component: lazyRouteComponent(() => import('./events/events.tsx'), 'Events'),
  }),
  createRoute({
    ...atInside,
    path: '/decoys',
    validateSearch: decoySearch,
    component: lazyRouteComponent(() => import('./decoys/decoys.tsx'), 'Decoys'),
  }),
  createRoute({
    ...atInside,
    path: '/rules',
    validateSearch: rulesSearch,
    component: lazyRouteComponent(() => import('./rules/rules.tsx'), 'Rules'),
  }),
  createRoute({
    ...atInside,
    path: '/rules/new',
    component: lazyRouteComponent(() => import('./rules/new-rule.tsx'), 'NewRule'),
  }),
  createRoute({
    ...atInside,
    path: '/rules/$id',
    validateSearch: ruleSearch,
    component: lazyRouteComponent(() => import('./rules/rule.tsx'), 'RulePage'),
  }),
  createRoute({
    ...atInside,
    path: '/alerts',
    validateSearch: alertSearch,
    component: lazyRouteComponent(() => import('./alerts/alerts.tsx'), 'Alerts'),
  }),
  createRoute({
    ...atInside,
    path: '/incidents',
    validateSearch: incidentSearch,
    component: lazyRouteComponent(() => import('./incidents/incidents.tsx'), 'Incidents'),
  }),
  createRoute({
    ...atInside,
    path: '/audit',
    validateSearch: auditSearch,
    component: lazyRouteComponent(() => import('./audit/audit.tsx'), 'Audit'),
  }),
  createRoute({
    ...atInside,
    path: '/keys',
    validateSearch: keySearch,
    component: lazyRouteComponent(() => import('./keys/keys.tsx'), 'Keys'),
  }),
  createRoute({
    ...atInside,
    path: '/connect',
    validateSearch: connectSearch,
    component: lazyRouteComponent(() => import('./connect/connect.tsx'), 'Connect'),
  }),
  createRoute({
    ...atInside,
    path: '/settings',
    component: lazyRouteComponent(() => import('./settings/settings.tsx'), 'Settings'),
  }),
] as const

const routeTree = root.addChildren([...outside, inside.addChildren(screens)])

export function createDashboardRouter(client: QueryClient) {
  return createRouter({ routeTree, context: { client }, defaultPreload: 'intent', defaultPendingMs: 300 })
}

declare module '@tanstack/react-router' {
  interface Register {
    router: ReturnType<typeof createDashboardRouter>
  }
}
