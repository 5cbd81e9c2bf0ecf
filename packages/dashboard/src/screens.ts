/** Addresses that have a screen; the service answers every other one with 404. */
export const screens = [
  '/',
  '/fleet',
  '/fleet/:id',
  '/containments',
  '/containments/:id',
  '/events',
  '/decoys',
  '/alerts',
  '/audit',
  '/keys',
  '/connect',
  '/settings',
  '/trust',
  '/wallboard',
  '/login',
] as const
