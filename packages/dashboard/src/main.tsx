import { CSPProvider } from '@base-ui/react/csp-provider'
import { QueryCache, QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { WardlineError } from '@wardline/contract'
import { createRoot } from 'react-dom/client'
import { isSignedOut } from './data/client.ts'
import './login/provider-answer.ts'
import { createDashboardRouter } from './router.tsx'
import './ui/base.css'

const client = new QueryClient({
  queryCache: new QueryCache({
    onError: (fault) => {
      if (isSignedOut(fault)) void askToSignIn()
    },
  }),
  defaultOptions: {
    queries: {
      // Frees lists of closed screens early: five minutes of browsing a large fleet took 40 MB.
      gcTime: 60_000,
      retry: (failures, fault) => !isSignedOut(fault) && !isMissing(fault) && failures < 2,
      // Jitter, because after a restart all dashboards send requests at once.
      retryDelay: () => 500 + 1_000 * Math.random(),
      networkMode: 'always',
    },
  },
})
const router = createDashboardRouter(client)

/** Whether what was asked for does not exist, which another attempt does not change. */
const isMissing = (fault: unknown) => fault instanceof WardlineError && fault.status === 404

async function askToSignIn(): Promise<void> {
  const { pathname, href } = router.state.location
  if (pathname === '/login' || pathname === '/trust' || pathname.startsWith('/auth/')) return
  await router.navigate({ to: '/login', search: { to: href } })
}

createRoot(document.getElementById('root')!).render(
  <CSPProvider disableStyleElements>
    <QueryClientProvider client={client}>
      <RouterProvider router={router} />
    </QueryClientProvider>
  </CSPProvider>,
)
