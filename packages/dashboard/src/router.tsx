import type { QueryClient } from '@tanstack/react-query'
import {
  createRootRouteWithContext,
  createRoute,
  createRouter,
  lazyRouteComponent,
  redirect,
} from '@tanstack/react-router'
import { ruleModes, severities } from '@wardline/contract'
import { type AlertSearch, alertViews, shownStatuses } from './alerts/search.ts'
import type { AuditSearch } from './audit/entries.ts'
import type { ConnectSearch } from './connect/search.ts'
import { tabs } from './connect/snippets.ts'
import type { ContainmentsSearch } from './containments/search.ts'
import { type DecoySearch, decoyFilters } from './decoys/search.ts'
import { type EventSearch, lastRanges } from './events/search.ts'
import { type FleetSearch, sortKeys, statusFilters } from './fleet/view.ts'
import type { IncidentSearch } from './incidents/search.ts'
import { type KeySearch, keyFilters } from './keys/search.ts'
import { instantOf, type TimeRange } from './parts/time-range.tsx'
import type { RuleSearch, RulesSearch } from './rules/search.ts'
import { isSignedOut } from './service/client.ts'
import { firingDays } from './service/rules.ts'
import { sessionQuery } from './service/session.ts'
import { FaultPage, UnknownPage } from './shell/other-pages.tsx'
import { Shell } from './shell/shell.tsx'

const root = createRootRouteWithContext<{ client: QueryClient }>()({
  notFoundComponent: UnknownPage,
  errorComponent: FaultPage,
})

/** More groups than anyone reads. */
const maxTexts = 200

/** Reads a non-empty text from the address. */
const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? value : typeof value === 'number' ? String(value) : undefined

/** Reads a list of group names from the address. The empty name is the group of agents without a tag. */
const textsOf = (value: unknown): string[] | undefined =>
  Array.isArray(value) ? value.filter((text) => typeof text === 'string').slice(0, maxTexts) : undefined

const login = createRoute({
  getParentRoute: () => root,
  path: '/login',
  validateSearch: (search): { to?: string } => {
    const to = textOf(search.to)
    // Only paths of this service, so that a link cannot redirect from the sign-in to another site.
    return { to: to !== undefined && /^\/(?![/\\])/.test(to) ? to : undefined }
  },
  component: lazyRouteComponent(() => import('./login/login.tsx'), 'Login'),
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

/** Parent of all screens that require sign-in. */
const inside = createRoute({ getParentRoute: () => root, id: 'inside', component: Shell, beforeLoad: askToSignIn })

/** Has no frame, because nothing on it is clicked. */
const wallboard = createRoute({
  getParentRoute: () => root,
  path: '/wallboard',
  beforeLoad: askToSignIn,
  component: lazyRouteComponent(() => import('./wallboard/wallboard.tsx'), 'Wallboard'),
})

const overview = createRoute({
  getParentRoute: () => inside,
  path: '/',
  validateSearch: ({ from, to }): TimeRange => ({ from: instantOf(from), to: instantOf(to) }),
  component: lazyRouteComponent(() => import('./overview/overview.tsx'), 'Overview'),
})

// A refused value must be an explicit undefined: for a missing name, the router would use the value of the address.
const number = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isFinite(value) ? value : undefined
const oneOf = <Value extends string>(values: readonly Value[], value: unknown): Value | undefined =>
  values.find((known) => known === value)
const fleet = createRoute({
  getParentRoute: () => inside,
  path: '/fleet',
  validateSearch: ({ status, q, sort, down, from, group, closed, view }): FleetSearch => ({
    status: oneOf(statusFilters, status),
    q: textOf(q),
    sort: oneOf(sortKeys, sort),
    down: down === true || undefined,
    from: textOf(from),
    group: textOf(group),
    closed: textsOf(closed),
    view: textOf(view),
  }),
  component: lazyRouteComponent(() => import('./fleet/fleet.tsx'), 'Fleet'),
})

const agent = createRoute({
  getParentRoute: () => inside,
  path: '/fleet/$id',
  validateSearch: ({ hours, metric }): { hours?: 1 | 6 | 24; metric?: string } => ({
    hours: ([1, 6, 24] as const).find((known) => known === hours),
    metric: textOf(metric),
  }),
  component: lazyRouteComponent(() => import('./agent/agent.tsx'), 'AgentPage'),
})

const containments = createRoute({
  getParentRoute: () => inside,
  path: '/containments',
  validateSearch: ({ drill }): ContainmentsSearch => ({ drill: textOf(drill) }),
  component: lazyRouteComponent(() => import('./containments/containments.tsx'), 'Containments'),
})

const containment = createRoute({
  getParentRoute: () => inside,
  path: '/containments/$id',
  component: lazyRouteComponent(() => import('./containments/containment.tsx'), 'ContainmentPage'),
})

const events = createRoute({
  getParentRoute: () => inside,
  path: '/events',
  validateSearch: ({ severity, instance_id, event_type, session_id, q, last, from, to, view, open }): EventSearch => ({
    severity: oneOf(severities, severity),
    instance_id: textOf(instance_id),
    event_type: textOf(event_type),
    session_id: textOf(session_id),
    q: textOf(q),
    last: oneOf(lastRanges, last),
    from: instantOf(from),
    to: instantOf(to),
    view: textOf(view),
    open: number(open),
  }),
  component: lazyRouteComponent(() => import('./events/events.tsx'), 'Events'),
})

const decoys = createRoute({
  getParentRoute: () => inside,
  path: '/decoys',
  validateSearch: ({ q, show, open, plant, agent }): DecoySearch => ({
    q: textOf(q),
    show: oneOf(decoyFilters, show),
    open: textOf(open),
    plant: textOf(plant),
    agent: textOf(agent),
  }),
  component: lazyRouteComponent(() => import('./decoys/decoys.tsx'), 'Decoys'),
})

const rules = createRoute({
  getParentRoute: () => inside,
  path: '/rules',
  validateSearch: ({ q, show }): RulesSearch => ({ q: textOf(q), show: oneOf(ruleModes, show) }),
  component: lazyRouteComponent(() => import('./rules/rules.tsx'), 'Rules'),
})

const newRule = createRoute({
  getParentRoute: () => inside,
  path: '/rules/new',
  component: lazyRouteComponent(() => import('./rules/new-rule.tsx'), 'NewRule'),
})

const rule = createRoute({
  getParentRoute: () => inside,
  path: '/rules/$id',
  validateSearch: ({ days, version }): RuleSearch => ({
    days: firingDays.find((known) => known === days),
    version: number(version),
  }),
  component: lazyRouteComponent(() => import('./rules/rule.tsx'), 'RulePage'),
})

const audit = createRoute({
  getParentRoute: () => inside,
  path: '/audit',
  validateSearch: ({ actor, action, target, from, to, open }): AuditSearch => ({
    actor: textOf(actor),
    action: textOf(action),
    target: textOf(target),
    from: textOf(from),
    to: textOf(to),
    open: number(open),
  }),
  component: lazyRouteComponent(() => import('./audit/audit.tsx'), 'Audit'),
})

const incidents = createRoute({
  getParentRoute: () => inside,
  path: '/incidents',
  validateSearch: ({ agent, from, to }): IncidentSearch => ({
    agent: textOf(agent),
    from: instantOf(from),
    to: instantOf(to),
  }),
  component: lazyRouteComponent(() => import('./incidents/incidents.tsx'), 'Incidents'),
})

const alerts = createRoute({
  getParentRoute: () => inside,
  path: '/alerts',
  validateSearch: ({ view, status, severity, instance_id, event_type, assignee, alert, channel }): AlertSearch => ({
    view: oneOf(alertViews, view),
    status: oneOf(shownStatuses, status),
    severity: oneOf(severities, severity),
    instance_id: textOf(instance_id),
    event_type: textOf(event_type),
    assignee: textOf(assignee),
    alert: textOf(alert),
    channel: textOf(channel),
  }),
  component: lazyRouteComponent(() => import('./alerts/alerts.tsx'), 'Alerts'),
})

const keys = createRoute({
  getParentRoute: () => inside,
  path: '/keys',
  validateSearch: ({ q, show, create }): KeySearch => ({
    q: textOf(q),
    show: oneOf(keyFilters, show),
    create: create === true || undefined,
  }),
  component: lazyRouteComponent(() => import('./keys/keys.tsx'), 'Keys'),
})

const connect = createRoute({
  getParentRoute: () => inside,
  path: '/connect',
  validateSearch: ({ tab, agent, simulate }): ConnectSearch => ({
    tab: oneOf(tabs, tab),
    agent: textOf(agent),
    simulate: simulate === true || undefined,
  }),
  component: lazyRouteComponent(() => import('./connect/connect.tsx'), 'Connect'),
})

const settings = createRoute({
  getParentRoute: () => inside,
  path: '/settings',
  component: lazyRouteComponent(() => import('./settings/settings.tsx'), 'Settings'),
})

/** Public: needs no sign-in. */
const trust = createRoute({
  getParentRoute: () => root,
  path: '/trust',
  component: lazyRouteComponent(() => import('./trust/trust.tsx'), 'Trust'),
})

const routeTree = root.addChildren([
  login,
  trust,
  wallboard,
  inside.addChildren([
    overview,
    fleet,
    agent,
    containments,
    containment,
    events,
    decoys,
    rules,
    newRule,
    rule,
    alerts,
    incidents,
    audit,
    keys,
    connect,
    settings,
  ]),
])

export function createDashboardRouter(client: QueryClient) {
  return createRouter({ routeTree, context: { client }, defaultPreload: 'intent', defaultPendingMs: 300 })
}

declare module '@tanstack/react-router' {
  interface Register {
    router: ReturnType<typeof createDashboardRouter>
  }
}
