import { places, wallboard } from './shell/places.ts'

/** Paths that have a screen; the service returns 404 for all others. */
export const screens: readonly string[] = [
  ...places.map(({ to }) => to),
  '/fleet/:id',
  '/containments/:id',
  '/policy',
  '/policies/:id',
  '/approvals/:id',
  '/rules/:id',
  '/rules/coverage',
  '/rules/lists',
  '/rules/lists/:name',
  wallboard.to,
  '/account',
  '/login',
  '/auth/login',
  '/auth/callback',
  '/auth/cli',
]
